from stageguard.nn.backbones import build_backbone as build_backbone
from stageguard.nn.losses import LossParts as LossParts
from stageguard.nn.losses import StageGuardLoss as StageGuardLoss
from stageguard.nn.losses import TransitionPenalty as TransitionPenalty
from stageguard.nn.semi_markov import SemiMarkovLoss as SemiMarkovLoss
from stageguard.nn.semi_markov import SemiMarkovParts as SemiMarkovParts
from stageguard.nn.wrapper import Guarded as Guarded
