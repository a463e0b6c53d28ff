"""Settings: ranges, contradictions and what follows from others."""

import dataclasses
import json
import math

import pytest

from adaptive_gcn.config import Config, ConfigError, describe_range

# Flag, first value outside its range, the range in words.
OUTSIDE = [
    ("seed", -1, "at least 0 and at most 2147483647"),
    ("seed", 2**31, "at least 0 and at most 2147483647"),
    ("split_seed", -1, "at least 0 and at most 2147483647"),
    ("split_seed", 2**31, "at least 0 and at most 2147483647"),
    ("identity_weight", -0.1, "at least 0 and at most 1000000.0"),
    ("hidden_units", (16, 0), "at least 1"),
    ("dropout", -0.1, "at least 0 and at most 0.99"),
    ("dropout", 1.0, "at least 0 and at most 0.99"),
    ("samples_per_layer", (0,), "at least 1"),
    ("n_neighbors", 0, "at least 1"),
    ("refresh_interval", 0, "at least 1"),
    ("prefetch", -1, "at least 0 and at most 1000"),
    ("variance_weight", -1.0, "at least 0"),
    ("batch_size", -1, "at least 1"),
    ("batch_size", 0, "at least 1"),
    ("epochs", 0, "at least 1"),
    ("learning_rate", 0.0, "above 0"),
    ("sampler_learning_rate", 0.0, "above 0"),
    ("weight_decay", -1e-9, "at least 0"),
    ("weight_average", 1.0, "at least 0 and at most 0.9999"),
    ("patience", -1, "at least 0"),
    ("synthetic_nodes", 29, "at least 30"),
    ("synthetic_features", 9, "at least 10"),
    ("synthetic_classes", 1, "at least 2"),
    ("synthetic_degree", 0.0, "above 0"),
    ("synthetic_homophily", -0.1, "at least 0 and at most 1"),
    ("synthetic_homophily", 1.1, "at least 0 and at most 1"),
    ("synthetic_label_noise", -0.1, "at least 0 and at most 1"),
    ("synthetic_word_signal", 1.1, "at least 0 and at most 1"),
    ("synthetic_seed", -1, "at least 0"),
    ("checkpoint_seconds", -1.0, "at least 0"),
    ("profile_step", -1, "at least 0"),
    ("reddit_like_scale", 0.0, "above 0 and at most 100"),
    ("block_entries", 0, f"at least 1 and at most {2**31 - 1}"),
]
CHOICES = [f for f in dataclasses.fields(Config) if f.metadata["choices"]]
FLOATS = [
    f.name
    for f in dataclasses.fields(Config)
    if isinstance(f.default, float) or f.default is None
]


def test_default_is_the_papers_method_and_size():
    config = Config()
    assert config.method == "adapt"
    assert config.variance_weight == 0.5
    assert config.patience == 30
    assert config.hidden_units == (16,)


def test_a_precomputed_bottom_leaves_one_sampled_layer():
    config = Config(precompute=True, samples_per_layer=(512,))
    assert config.n_layers == 2
    assert config.n_sampled_layers == 1
    assert config.samples == (512,)
    with pytest.raises(ConfigError, match="expected one number, or 1, one per"):
        Config(precompute=True, samples_per_layer=(512, 256))


def test_skip_over_a_precomputed_bottom_is_refused_with_the_reason():
    with pytest.raises(ConfigError, match="the lower one is not sampled"):
        Config(precompute=True, skip=True)


def test_convert_needs_to_know_where_to():
    with pytest.raises(ConfigError, match="expected --output_dir"):
        Config(mode="convert")


def test_config_is_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().seed = 1


@pytest.mark.parametrize("name, value, expected", OUTSIDE)
def test_number_outside_its_range_is_named_with_the_range(
    name, value, expected
):
    bad = value[-1] if isinstance(value, tuple) else value
    with pytest.raises(ConfigError) as error:
        Config(**{name: value})
    assert str(error.value) == f"--{name}={bad}: expected {expected}"


def test_every_number_has_a_range_and_a_case_above():
    bounded = {
        field.name
        for field in dataclasses.fields(Config)
        if describe_range(field.metadata)
    }
    numbers = {
        field.name
        for field in dataclasses.fields(Config)
        if not isinstance(field.default, (str, bool))
    }
    assert bounded == numbers == {name for name, *_ in OUTSIDE}


@pytest.mark.parametrize(
    "name, value",
    [
        ("seed", 0),
        ("seed", 2**31 - 1),
        ("dropout", 0.99),
        ("batch_size", 1),
        ("variance_weight", 0.0),
        ("patience", 0),
        ("synthetic_homophily", 1.0),
        ("learning_rate", 1e-300),
    ],
)
def test_ends_of_a_range_belong_to_it(name, value):
    assert getattr(Config(**{name: value}), name) == value


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(name, value):
    with pytest.raises(ConfigError) as error:
        Config(**{name: value})
    start = f"--{name}={value}: expected a finite number, a"
    assert str(error.value).startswith(start)


@pytest.mark.parametrize("field", CHOICES, ids=lambda field: field.name)
@pytest.mark.parametrize("value", ["core", ""])
def test_unknown_choice_is_refused_with_the_choices(field, value):
    with pytest.raises(ConfigError) as error:
        Config(**{field.name: value})
    choices = ", ".join(field.metadata["choices"])
    assert str(error.value) == (
        f"--{field.name}={value}: expected one of {choices}"
    )


@pytest.mark.parametrize("field", CHOICES, ids=lambda field: field.name)
def test_every_choice_is_taken(field):
    for value in field.metadata["choices"]:
        others = {"variance_weight": 0.0, "output_dir": "out"}
        if value == "folder":
            others["dataset_dir"] = "mine"
        config = Config(**{**others, field.name: value})
        assert getattr(config, field.name) == value


@pytest.mark.parametrize(
    "method, expected",
    [("adapt", 0.5), ("full", 0.0), ("iid", 0.0), ("node_wise", 0.0)],
)
def test_variance_weight_follows_the_method_unless_given(method, expected):
    assert Config(method=method).variance_weight == expected
    given = Config(
        method=method, variance_weight=0.2, network_term="mean_logit"
    )
    assert given.variance_weight == 0.2


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({}, True),
        ({"variance_weight": 0.0}, False),
        ({"method": "iid", "variance_weight": 0.5}, False),
        ({"method": "full"}, False),
    ],
)
def test_sampler_is_trained_by_adapt_with_lambda_above_0(settings, expected):
    assert Config(**settings).trains_sampler is expected


@pytest.mark.parametrize("method", ["full", "node_wise"])
def test_variance_term_without_draws_from_q_is_a_contradiction(method):
    with pytest.raises(ConfigError) as error:
        Config(method=method, variance_weight=0.5, network_term="variance")
    for part in (
        "--network_term=variance",
        f"--method={method}",
        "--network_term=mean_logit",
        "--variance_weight=0",
    ):
        assert part in str(error.value)
    Config(method=method, variance_weight=0.5, network_term="mean_logit")


def test_one_number_of_samples_serves_all_layers():
    config = Config(hidden_units=(16, 8), samples_per_layer=(64,))
    assert config.n_layers == 3
    assert config.samples == (64, 64, 64)
    config = Config(hidden_units=(16,), samples_per_layer=(64, 32))
    assert config.samples == (64, 32)


@pytest.mark.parametrize("samples", [(), (1, 2, 3), (1, 2, 3, 4)])
def test_number_of_sample_sizes_must_fit_the_layers(samples):
    words = ",".join(map(str, samples))
    with pytest.raises(ConfigError) as error:
        Config(hidden_units=(16,), samples_per_layer=samples)
    assert str(error.value) == (
        f"--samples_per_layer={words}: expected one number, or 2, one per "
        "sampled layer"
    )


def test_network_without_hidden_layer_is_refused():
    with pytest.raises(
        ConfigError, match="--hidden_units: .* one hidden layer"
    ):
        Config(hidden_units=())


def test_settings_survive_json():
    config = Config(hidden_units=(16, 8), samples_per_layer=(64,), skip=True)
    stored = json.loads(json.dumps(config.as_dict(), allow_nan=False))
    restored = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in stored.items()
    }
    assert Config(**restored) == config


def test_every_setting_has_a_help_text():
    for field in dataclasses.fields(Config):
        assert len(field.metadata["help"]) > 5, field.name
        assert not field.metadata["help"].endswith(".")


@pytest.mark.parametrize(
    "name, value",
    [
        ("two_hop", "false"),
        ("epochs", 2.5),
        ("epochs", None),
        ("epochs", True),
        ("dropout", None),
        ("hidden_units", (16.5,)),
        ("hidden_units", [16]),
        ("output_dir", None),
        ("overwrite", 1),
    ],
)
def test_value_of_another_type_is_named(name, value):
    with pytest.raises(ConfigError, match=f"--{name}=.*: expected a value of"):
        Config(**{name: value})


def test_choices_are_those_of_the_parts_they_go_to():
    from adaptive_gcn import adjacency, datasets, features, layers, model
    from adaptive_gcn.datasets import assemble, link_ends, reddit, writers
    from adaptive_gcn.sampling import samplers

    choices = {f.name: f.metadata["choices"] for f in CHOICES}
    assert choices["dataset"] == datasets.NAMES
    assert choices["missing_features"] == assemble.MISSING_FEATURES
    assert choices["features"] == features.SCALINGS
    assert choices["reddit_format"] == reddit.FORMATS
    assert choices["link_ends"] == link_ends.ENDS
    assert choices["to"] == ("store", *writers.FORMATS)
    assert choices["normalization"] == adjacency.NORMALIZATIONS
    assert choices["attention"] == model.ATTENTION_FORMS
    assert choices["proposal"] == samplers.PROPOSALS
    assert choices["self_dependent"] == layers.FORMS
