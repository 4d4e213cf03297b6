"""Templates: what they can read and do, and that they give the same on every run."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.errors import ProjectErrors
from odfbuild.project.load import Project, load_project
from odfbuild.project.yaml import Value
from tests.project.templated import NAMED, SETTINGS, described, lay_out, one

VARIABLES = """\
odfbuild: 1
vars:
  region: {type: string, default: eu}
  limits: {type: map, default: {low: 1, values: [2, x]}}
  on: {type: bool, default: true}
  token: {type: string}
env: [STAGE]
"""
WITH_VARIABLES = {"odfbuild.yaml": VARIABLES}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'{{ region }} {{ vars.region }}'", "eu eu"),
        ("'{{ limits.low }} {{ limits[\"values\"][1] }}'", "1 x"),
        ("'{{ env.STAGE }}'", "test"),
        ("'{% if on %}yes{% else %}no{% endif %}'", "yes"),
        ("'{% for each in limits %}{{ each }},{% endfor %}'", "low,values,"),
        ("'{% for x in \"ab\" %}{{ loop.index }}{{ x }}/{{ loop.length }} {% endfor %}'",
         "1a/2 2b/2 "),
        ("'{{ token | default(\"none\") }}'", "none"),
        ("'{{ region | upper }}{{ \"-\" * 3 }}'", "EU---"),
        ("'{{ region is defined }} {{ nowhere is defined }}'", "true false"),
        ("'{{ [1, none, true, \"a\"] }}'", '[1, null, true, "a"]'),
        ("'{{ limits }}'", '{"low": 1, "values": [2, "x"]}'),
        ("'{{ none ~ true ~ 1.5 }}'", "nulltrue1.5"),
        ("{{ limits | tojson | tojson }}", '{"low": 1, "values": [2, "x"]}'),
        ("{{ 'a: b # c' | tojson }}", "a: b # c"),
        ("'${{ env.SECRET }}/${{env.OTHER}}'", "${{ env.SECRET }}/${{env.OTHER}}"),
        ("'${{ env.{{ region | upper }} }}'", "${{ env.EU }}"),
        ("'{% raw %}{{ as it is }}{% endraw %}'", "{{ as it is }}"),
        ("'{# a remark #}x'", "x"),
        ("'{% set x = namespace(n=1) %}{% for i in [1, 2] %}{% set x.n = x.n + i %}{% endfor %}"
         "{{ x.n }}'", "4"),
        ("'{{ {\"items\": 1}.items() | list | length }}'", "1"),
    ],
)  # fmt: skip
def test_a_template_can(tmp_path: Path, text: str, expected: str) -> None:
    assert one(tmp_path, text, WITH_VARIABLES, env={"STAGE": "test"}) == expected


def test_values_that_are_given_replace_defaults(tmp_path: Path) -> None:
    given = {"region": "us", "token": "t"}
    assert one(tmp_path, "'{{ region }} {{ token }}'", WITH_VARIABLES, variables=given) == "us t"


def test_lines_that_hold_a_tag_only_leave_nothing_behind(tmp_path: Path) -> None:
    text = "|\n{% for x in [1, 2] %}\n        row {{ x }}\n    {% endfor %}\n"
    assert one(tmp_path, text) == "row 1\nrow 2\n"


def test_macros_are_imported_from_their_folder(tmp_path: Path) -> None:
    macros = {
        "odfbuild.yaml": VARIABLES,
        "macros/deep/rates.j2": "{% macro pair(a, b='USD') %}{{ a }}/{{ b }} {{ region }}"
        "{% endmacro %}\n",
    }
    text = "\"{% import 'deep/rates.j2' as rates %}{{ rates.pair('EUR') }}\""
    assert one(tmp_path, text, macros) == "EUR/USD eu"


def test_a_macro_sees_the_names_of_its_caller_only_if_it_is_given_them(tmp_path: Path) -> None:
    macros = {"macros/m.j2": "{% macro f() %}{{ x | default('nothing') }}{% endmacro %}"}
    text = "\"{%% set x = 1 %%}{%% import 'm.j2' as m%s %%}{{ m.f() }}\""
    assert one(tmp_path, text % "", macros) == "nothing"
    assert one(tmp_path, text % " with context", macros) == "1"


def test_functions_of_python_are_called_where_they_are_asked_for(tmp_path: Path) -> None:
    files = {
        "odfbuild.yaml": SETTINGS + "macros: {python: true}\n",
        "macros/days.py": "from datetime import date, timedelta\n\n"
        "def after(day, n=1):\n"
        "    return date.fromisoformat(day) + timedelta(days=n)\n\n"
        "def both(a, b):\n    return (a, b)\n",
    }
    text = "'{{ py.days.after(\"2024-02-28\", n=2) }} {{ py.days.both(1, 2)[1] }}'"
    assert one(tmp_path, text, files) == "2024-03-01 2"


def test_private_functions_and_imported_ones_are_not_offered(tmp_path: Path) -> None:
    files = {
        "odfbuild.yaml": SETTINGS + "macros: {python: true}\n",
        "macros/m.py": "from os import getcwd\n\nclass C: pass\n\ndef _own():\n    return 1\n",
    }
    text = "'{{ py.m.getcwd is defined }} {{ py.m.C is defined }} {{ py.m._own is defined }}'"
    assert one(tmp_path, text, files) == "false false false"


def test_a_module_that_nothing_uses_does_not_run(tmp_path: Path) -> None:
    files = {
        "odfbuild.yaml": SETTINGS + "macros: {python: true}\n",
        "macros/bad.py": "raise RuntimeError\n",
        "macros/good.py": "def one():\n    return 1\n",
    }
    assert one(tmp_path, "'{{ py.good.one() }}'", files) == "1"


@pytest.mark.parametrize(
    "text",
    ["{{ range }}", "{{ cycler('a') }}", "{{ self }}", "{% macro f() %}{% endmacro %}{{ f }}",
     "{{ 'x'.upper }}", "{{ 'x' ~ range }}", "{{ lipsum() }}", "{{ [1, 2] | random }}"],
)  # fmt: skip
def test_nothing_prints_that_could_differ_from_run_to_run(tmp_path: Path, text: str) -> None:
    with pytest.raises(ProjectErrors):
        one(tmp_path, f"'{text}'")


@pytest.mark.parametrize(
    "text",
    ["{{ 9 ** (9 ** 9) }}", "{{ 'x' * 10 ** 8 }}", "{{ 10 ** 8 * [1] }}",
     "{% macro f(n) %}{{ f(n) if n else '' }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
     "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"],
)  # fmt: skip
def test_a_template_comes_to_an_end(tmp_path: Path, text: str) -> None:
    with pytest.raises(ProjectErrors) as caught:
        one(tmp_path, f"'{text}'")
    assert [each.code for each in caught.value.found] == ["template-limit"]


def test_templates_load_nothing_from_outside(tmp_path: Path) -> None:
    (tmp_path / "secret.j2").write_text("secret")
    root = lay_out(tmp_path / "project", {"macros/x.j2": "x"})
    (root / "macros" / "link.j2").symlink_to(tmp_path / "secret.j2")
    (root / "macros" / "deep").symlink_to(tmp_path)
    absolute = tmp_path / "secret.j2"
    for name in ("../secret.j2", "../../secret.j2", str(absolute), "link.j2", "deep/secret.j2"):
        with pytest.raises(ProjectErrors):
            one(root, f"\"{{% include '{name}' %}}\"")
    assert one(root, "\"{% include 'x.j2' %}\"") == "x"


def test_a_template_may_declare_several_datasets(tmp_path: Path) -> None:
    template = "{% for x in ['a', 'b'] %}\n---\n" + NAMED.replace("{name}", "{{ x }}").replace(
        "{text}", "of {{ x }}"
    )
    root = lay_out(tmp_path, {"datasets/all.yaml.j2": template + "{% endfor %}\n"})
    declared = load_project(root).declared
    assert [(str(each.alias), described(each), each.document) for each in declared] == [
        ("a", "of a", 0),
        ("b", "of b", 1),
    ]


def test_a_project_without_templates_needs_no_jinja(tmp_path: Path) -> None:
    lay_out(tmp_path, {"datasets/a.yaml": NAMED.format(name="a", text="x")})
    code = (
        "import sys; from pathlib import Path\n"
        "from odfbuild.project.load import load_project\n"
        f"print(len(load_project(Path({str(tmp_path)!r})).declared), 'jinja2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1 False\n"


def test_the_order_of_hashes_does_not_show(tmp_path: Path) -> None:
    text = '\'{{ {"b": 1, "a": 2} }} {{ ["b", "a", "b"] | unique | join(",") }}\''
    expected = one(tmp_path, text)
    code = (
        "from pathlib import Path\n"
        "from odfbuild.project.load import load_project\n"
        f"(each,) = load_project(Path({str(tmp_path)!r})).declared\n"
        "print(each.snapshot.metadata[0].description, end='')"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == expected


NAMES = st.sampled_from(["A", "B", "C", "D"])


@given(st.dictionaries(NAMES, st.sampled_from(["1", "x"])), st.randoms(use_true_random=False))
def test_the_order_of_the_environment_does_not_show(
    tmp_path_factory: pytest.TempPathFactory, env: dict[str, str], random: object
) -> None:
    root = tmp_path_factory.mktemp("project")
    config = {"odfbuild.yaml": SETTINGS + "env: [A, B, C]\n"}
    text = "'{{ env }}{{ env.A | default(0) }}'"
    items = list(env.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert one(root, text, config, env=env) == one(root, text, config, env=dict(items))


TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cf", "Zl", "Zp"]), max_size=20)
LINES = st.sampled_from(
    ["", "# a remark\n", "---\n", "description: ${{ env.X }} }} %} #}\n", '"": "\\x41\\n"\n',
     "x: |\n  a\n   b\n\n  c\n", "- [1, 2.5, NO, ~]\n", "k: >-\n  folded\n  text\n\n"]
)  # fmt: skip


def text_of(project: Project) -> list[tuple[object, str, int]]:
    return [(each.snapshot, str(each.span()), each.document) for each in project.declared]


@given(TEXTS, st.lists(st.sampled_from(["\n", "\r\n"]), min_size=8, max_size=8), st.booleans())
def test_a_plain_file_declares_the_same_as_a_template(
    tmp_path_factory: pytest.TempPathFactory, text: str, ends: list[str], last: bool
) -> None:
    root = tmp_path_factory.mktemp("project")
    quoted = text.replace("'", "''").replace("{", "(")
    lines = NAMED.format(name="a", text=f"'{quoted} ${{{{ env.X }}}}'").splitlines()
    written = "".join(map("".join, zip(lines, ends, strict=True)))
    written = written if last else written.rstrip("\r\n")
    lay_out(root, {"datasets/a.yaml": written})
    plain = load_project(root)
    (root / "datasets/a.yaml").rename(root / "datasets/a.yaml.j2")
    assert [
        (snapshot, place.replace(".j2", ""), document)
        for snapshot, place, document in text_of(load_project(root))
    ] == text_of(plain)


@given(st.lists(LINES, max_size=6).map("".join))
def test_broken_plain_files_are_refused_in_the_same_words_as_templates(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    root = tmp_path_factory.mktemp("project")
    lay_out(root, {"datasets/a.yaml": text})
    plain = problems(root)
    (root / "datasets/a.yaml").rename(root / "datasets/a.yaml.j2")
    assert problems(root).replace(".yaml.j2", ".yaml") == plain


def problems(root: Path) -> str:
    try:
        return str(len(load_project(root).declared))
    except ProjectErrors as errors:
        return render_diagnostics(errors.found)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES.filter(lambda value: value is not None))
def test_a_value_comes_through_as_it_is_by_tojson(
    tmp_path_factory: pytest.TempPathFactory, value: Value
) -> None:
    import json

    root = tmp_path_factory.mktemp("project")
    config = {"odfbuild.yaml": SETTINGS + "vars: {v: {type: string, default: x}}\n"}
    told = one(root, "{{ v | tojson | tojson }}", config, variables={"v": value})
    assert told is not None
    assert json.loads(told) == value
