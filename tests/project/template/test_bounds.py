"""Expressions that ask for more than any template needs are refused before anything is made."""

import tracemalloc
from pathlib import Path

import pytest

from odfbuild.errors import ProjectErrors
from odfbuild.project.files import Home
from odfbuild.project.template.templates import Templates
from odfbuild.project.yaml.places import SourceText

BIG = "{% set big = 'ab' * 400000 %}"
DOUBLED = (
    "{{% set ns = namespace(x='ab') %}}"
    "{{% for i in range(99) %}}{{% set ns.x = {} %}}{{% endfor %}}"
)
TURNS = "{% for i in range(99999) %}"
ENDS = "{% endfor %}"

GREEDY = {
    "a repeated text": "{{ 'a' * 10 ** 10 }}",
    "a repeated list": "{{ 10 ** 10 * [1] }}",
    "a power": "{{ 9 ** (9 ** 9) }}",
    "a centred text": "{{ 'a' | center(10 ** 10) }}",
    "a centred text, by name": "{{ 'a' | center(width=10 ** 10) }}",
    "an indented text": "{{ 'a' | indent(10 ** 10, first=true) }}",
    "an indented text of many lines": "{{ ('a\\n' * 4000) | indent(4000) }}",
    "a padded text": "{{ 'a'.ljust(10 ** 10) }}",
    "a number with zeros": "{{ '1'.zfill(10 ** 10) }}",
    "tabs": "{{ '\\t'.expandtabs(10 ** 10) }}",
    "a wide format": "{{ '%9999999999d' | format(1) }}",
    "a wide format, by its operator": "{{ '%9999999999d' % 1 }}",
    "a computed width": "{{ '%*d' % (10 ** 10, 1) }}",
    "a computed width of a name": "{{ '%(a)*d' % {'a': 1} }}",
    "a wide method": "{{ '{:>9999999999}'.format(1) }}",
    "a computed width of a method": "{{ '{:>{}}'.format(1, 10 ** 10) }}",
    "one text put in many times": BIG + "{{ ('{0}' * 1000).format(big) }}",
    "one text put in many times, by its operator": BIG + "{{ ('%s' * 99) % ((big,) * 99) }}",
    "a text replaced by a longer one": BIG + "{{ big | replace('a', big) }}",
    "a text replaced by a method": BIG + "{{ big.replace('a', big) }}",
    "a text put between all signs": BIG + "{{ big | replace('', big) }}",
    "a list joined": BIG + "{{ ([big] * 1000) | join }}",
    "a list joined by a method": BIG + "{{ ','.join([big] * 1000) }}",
    "a long text between": BIG + "{{ [1, 2, 3, 4] | join(big) }}",
    "a text wrapped": BIG + "{{ big | wordwrap(1, wrapstring=big) }}",
    "many digits": "{{ 1 | round(99999999, 'ceil') }}",
    "few digits, very": "{{ 1 | round(-99999999, 'floor') }}",
    "a long batch": "{{ ['a'] | batch(10 ** 10, 'x') | list }}",
    "many slices": "{{ ['a'] | slice(10 ** 10) | list }}",
    "lists of one list": "{% set a = ['x'] * 1000 %}{% set b = [a] * 1000 %}{{ [b] * 1000 }}",
    "such lists as JSON": "{% set a = ['x'] * 1000 %}{% set b = [a] * 1000 %}{{ b | tojson }}",
    "such lists as text": "{% set a = ['x'] * 1000 %}{% set b = [a] * 1000 %}{{ b | string }}",
    "a sum of lists": "{{ ([[1]] * 100000) | sum(start=[]) | length }}",
    "a doubled text": DOUBLED.format("ns.x ~ ns.x"),
    "a doubled text, by adding": DOUBLED.format("ns.x + ns.x"),
    "a doubled list": DOUBLED.format("[ns.x, ns.x]") + "{{ ns.x }}",
    "a block that is captured": BIG + f"{{% set x %}}{TURNS}{{{{ big }}}}{ENDS}{{% endset %}}",
    "a macro": BIG + f"{{% macro m() %}}{TURNS}{{{{ big }}}}{ENDS}{{% endmacro %}}{{{{ m() }}}}",
    "filters in loops": f"{BIG}{TURNS}{{% set x = big | upper %}}{ENDS}",
    "methods in loops": f"{BIG}{TURNS}{{% set x = big.upper() %}}{ENDS}",
    "slices in loops": f"{BIG}{TURNS}{{% set x = big[::-1] %}}{ENDS}",
    "comparisons in loops": f"{BIG}{TURNS}{{% set x = big == big ~ '' %}}{ENDS}",
    "turns": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
}
MODEST = {
    "{{ 'a' | center(5) }}": "  a  ",
    "{{ 'ab' * 3 ~ 1 ~ true }}": "ababab1true",
    "{{ '%05.1f|%s' | format(2.25, 'x') }}": "002.2|x",
    "{{ '%(a)s' % {'a': 1} }}": "1",
    "{{ '{:>4}{x}'.format(1, x=2) }}": "   12",
    "{{ 'a-b'.replace('-', '+') }}{{ 'a-b' | replace('-', '+', 1) }}": "a+ba+b",
    "{{ [1, true, 'x'] | join(', ') }}": "1, true, x",
    "{{ [{'a': 1}, {'a': 2}] | join('+', attribute='a') }}": "1+2",
    "{{ ['a', 'b'] | map('upper') | join }}{{ '.'.join(['a'] | map('upper')) }}": "ABA",
    "{{ [1, 2] | sum }}{{ [{'a': 1}, {'a': 2}] | sum('a') }}": "33",
    "{{ [[1], [2]] | sum(start=[]) }}": "[1, 2]",
    "{{ 2.345 | round(2, 'floor') }}": "2.34",
    "{{ 'a\nb' | indent }}": "a\n    b",
    "{{ [1, 2, 3] | batch(linecount=2) | list }}": "[[1, 2], [3]]",
    "{{ [1, 2, 3] | slice(2) | list }}": "[[1, 2], [3]]",
    "{{ 'abcdef'[1:3] }}{{ 2 < 3 == true }}": "bcfalse",
    "{{ 7 % 4 }}{{ 1 + 1 }}{{ [1] + [2] }}": "32[1, 2]",
    "{{ true | string }}": "true",
}


def render(tmp_path: Path, text: str) -> str:
    templates = Templates(Home(root=tmp_path), {}, {})
    return templates.render(SourceText("t.yaml.j2", text), {}, None).text


@pytest.mark.holds("template-bounds")
@pytest.mark.parametrize("text", GREEDY.values(), ids=GREEDY)
def test_what_would_grow_without_bounds_is_refused(tmp_path: Path, text: str) -> None:
    tracemalloc.start()
    with pytest.raises(ProjectErrors) as caught:
        render(tmp_path, text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [each.code for each in caught.value.found] == ["template-limit"]
    assert peak < 100_000_000


@pytest.mark.parametrize("text", MODEST)
def test_what_is_of_use_is_done(tmp_path: Path, text: str) -> None:
    assert render(tmp_path, text) == MODEST[text]


@pytest.mark.holds("template-alike")
@pytest.mark.parametrize("name", ["random", "pprint", "urlize", "xmlattr"])
def test_filters_that_depend_on_chance_or_make_html_are_not_there(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ProjectErrors) as caught:
        render(tmp_path, f"{{{{ [1] | {name} }}}}")
    assert [each.code for each in caught.value.found] == ["template-syntax"]


@pytest.mark.holds("template-alike")
@pytest.mark.parametrize(
    "text", ["{{ cycler | string }}", "{{ [range] | join }}", "{{ '' ~ namespace(a=1) }}"]
)
def test_no_address_of_the_memory_is_written(tmp_path: Path, text: str) -> None:
    with pytest.raises(ProjectErrors) as caught:
        render(tmp_path, text)
    assert [each.code for each in caught.value.found] == ["template-error"]
