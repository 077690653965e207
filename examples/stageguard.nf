// Guard a folder of nights with Nextflow, a task per night, without a scheduler of ours:
//   nextflow run examples/stageguard.nf --nights nights --decoded decoded --profile human-psg-5
// On a cluster Nextflow submits the tasks itself: add -process.executor slurm. Other pipelines include the process:
//   include { STAGEGUARD_DECODE } from './stageguard.nf'
params.nights = 'nights'
params.decoded = 'decoded'
params.profile = 'human-psg-5'

process STAGEGUARD_DECODE {
    tag "${night.baseName}"
    publishDir params.decoded, mode: 'copy'
    cpus 1

    input:
    path night
    val profile

    output:
    path "${night.baseName}/*.hypnogram.tsv", emit: hypnogram
    path "${night.baseName}/*.hypnogram.json", emit: sidecar

    script:
    """
    stageguard decode '${night}' --profile '${profile}' --output '${night.baseName}' --overwrite
    """
}

workflow {
    nights = channel.fromPath("${params.nights}/*.csv", checkIfExists: true)
    STAGEGUARD_DECODE(nights, params.profile)
}
