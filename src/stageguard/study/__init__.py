"""Studies: train and test networks fold by fold, guard them in several ways, store and show the results."""
