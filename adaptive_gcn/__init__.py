"""Adaptive sampling for graph convolutional networks (AS-GCN), TF 2 / Keras 3.

A reimplementation of Huang et al., "Adaptive Sampling Towards Fast Graph
Representation Learning", NeurIPS 2018 (arXiv:1809.05343). Equation numbers in
the code count the displayed equations of that paper.

Modules, in the direction of the data (each imports only those above it):

    config        frozen `Config`: every setting of a run, with its range
    run_folder    output folder and records of a run
    graph         `Graph`: immutable container; normalisation, training graph
    conversions   graphs of other libraries -> `Graph`
    datasets      raw files -> `Graph`
    check_data    what is to be known of a data set before training
    sampling      samplers: (parents, generator) -> `LayerSample`
    pipeline      generator -> `tf.data.Dataset` of sampled blocks
    feature_ops   products of dense or sparse features
    variance      variance of the estimate and its analytic gradients
    layers        Keras layers
    optimizers    Adam in one operation
    targets       losses and scores, of classes and of several labels
    model         `AdaptiveGCN`, with its own `train_step`
    propagation   the full architecture, layer by layer
    callbacks     Keras callbacks of a run
    memory        keeping freed memory for the next batch
    training      fit, epoch selection, evaluation, result.json
    experiments   records -> tables
    main          command line
"""

__version__ = "0.1.0"
