"""Who may import whom; read from the source, nothing is imported."""

import ast
import graphlib
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "adaptive_gcn"
NUMPY_HALF = (
    "adaptive_gcn",
    "adjacency",
    "aligned",
    "beam.blocks",
    "check_data",
    "checkpoint_file",
    "config",
    "confusion",
    "conversions",
    "errors",
    "features",
    "graph",
    "graph_digest",
    "jit",
    "loading",
    "memory_map",
    "memory_needed",
    "node_choice",
    "prepared",
    "resume",
    "run_folder",
    "same_run",
    "self_dependent",
    "split_rule",
    "stopping",
    "versions",
)
# Entry points on Apache Beam, with its options.
PIPELINES = {
    "adaptive_gcn.beam.options",
    "adaptive_gcn.beam.predict",
    "adaptive_gcn.beam.prepare",
}
FRAMEWORKS = {"tensorflow", "keras", "tensorflow_datasets"}


def name_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(module):
    """Full names of all that a module imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(FILES[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def ours_of(module):
    """The modules of this package that a module imports."""
    found = set()
    for name in imports_of(module):
        if name not in FILES:
            name = name.rpartition(".")[0]
        if name in FILES:
            found.add(name)
    return found


def reach_of(module):
    """The same, through other modules too, with their packages."""
    reached, ahead = set(), {module}
    while ahead:
        name = ahead.pop()
        reached.add(name)
        parents = {
            name.rsplit(".", depth)[0]
            for depth in range(1, name.count(".") + 1)
        }
        ahead |= (ours_of(name) | parents) - reached
    return reached


def is_numpy_half(module):
    head = module.removeprefix("adaptive_gcn.")
    return head in NUMPY_HALF or (
        head.startswith(("sampling", "datasets"))
        and head != "datasets.builders"
    )


def test_all_modules_of_the_tables_are_there():
    modules = {name.removeprefix("adaptive_gcn.") for name in FILES}
    assert modules >= {
        "config",
        "graph",
        "run_folder",
        "sampling.samplers",
        "sampling.kernels",
        "datasets.planetoid",
        "datasets.builders",
        "layers",
        "variance",
        "feature_ops",
        "model",
        "main",
    }


@pytest.mark.parametrize("module", [*filter(is_numpy_half, FILES)])
def test_numpy_half_needs_no_tensorflow(module):
    for reached in reach_of(module):
        roots = {name.partition(".")[0] for name in imports_of(reached)}
        assert not roots & FRAMEWORKS, f"{module}, through {reached}"


@pytest.mark.parametrize(
    "module",
    ["layers", "targets", "variance", "feature_ops", "model", "served_model"],
)
def test_model_knows_tensors_only(module):
    forbidden = ("graph", "datasets", "sampling", "pipeline", "config")
    for reached in reach_of(f"adaptive_gcn.{module}"):
        head = reached.removeprefix("adaptive_gcn.").partition(".")[0]
        assert head not in forbidden, f"{module} reaches {reached}"


def test_a_run_does_not_import_tensorflow_datasets():
    for reached in reach_of("adaptive_gcn.main"):
        assert "tensorflow_datasets" not in imports_of(reached), reached


@pytest.mark.parametrize("module", FILES)
def test_flags_are_read_in_main_only(module):
    uses_flags = imports_of(module) & {"absl", "absl.flags", "absl.app"}
    # The grid hands flag files to `main` and puts back what they changed.
    allowed = {
        "adaptive_gcn.beam.options",
        "adaptive_gcn.beam.predict",
        "adaptive_gcn.main",
        "adaptive_gcn.experiments.__main__",
        "adaptive_gcn.experiments.grid",
        *PIPELINES,
    }
    assert not uses_flags or module in allowed
    assert uses_flags or module != "adaptive_gcn.main"


@pytest.mark.parametrize("module", FILES)
def test_nothing_imports_the_entry_points(module):
    entries = {"adaptive_gcn.main", "adaptive_gcn.experiments.__main__"}
    if module.startswith("adaptive_gcn.experiments"):
        entries.remove("adaptive_gcn.main")  # Experiments are runs of it.
    if module in PIPELINES:
        entries.remove("adaptive_gcn.main")  # Their flags are its own.
    assert not ours_of(module) & entries


def test_imports_have_no_cycle():
    table = {module: ours_of(module) - {module} for module in FILES}
    assert table["adaptive_gcn.training"] >= {"adaptive_gcn.model"}
    graphlib.TopologicalSorter(table).prepare()  # CycleError names the cycle.
