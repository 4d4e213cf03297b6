"""Texts that are cut: no part of a credential is left, as it is found before the cut.

`odfbuild.redaction.excerpt` and `odfbuild.errors.bounded` cut texts that others wrote.  Every other
slice with a fixed length is listed here, with why no part of a text can be left by it.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from odfbuild.errors import Diagnostic, OdfBuildError
from odfbuild.executors.process import last_words
from odfbuild.redaction import excerpt, hidden, hiding, redacted
from tests.projects import REPOSITORY

PACKAGE = REPOSITORY / "odfbuild"
SECRET = "hunter2-of-the-north"
ITEMS = "entries of a list, each of which stays whole"
DIGEST = "a digest"
DATA = "what is read or compared, not what is shown"
REDACTED = "redacted before"
OWN = "a text of odfbuild's own, or a time"
SLICES = {
    "app/doctoring.py": {"names[:_SHOWN]": ITEMS},
    "app/examining.py": {"asked[:_MANY]": ITEMS},
    "app/idle.py": {"sha3_256(os.fsencode(root)).digest.hex()[:32]": DIGEST},
    "app/importing.py": {"sorted(place.iterdir())[:_MOST_FOLDERS]": ITEMS, "found[:10]": ITEMS},
    "app/planning.py": {"revision.commit[:12]": DIGEST},
    "app/sources.py": {"sorted(found)[:_LINKS]": ITEMS},
    "cli/deps.py": {"pinned.commit[:10]": DIGEST, "pinned.tree[5:15]": DIGEST},
    "cli/diagnostics.py": {"line[first:first + _WIDEST]": REDACTED},
    "cli/explain_row.py": {"origin.blocks[-MOST_BLOCKS:]": ITEMS},
    "cli/explained_row.py": {"spans[:_MOST_SPANS]": ITEMS},
    "cli/formats/fitting.py": {"whole[:most]": ITEMS, "folds[:most]": ITEMS},
    "cli/formats/markdown.py": {
        "listed[:room // SMALLEST + 1]": ITEMS,
        "order[:max(0, room) // SMALLEST + 1]": ITEMS,
        "text[:len(text) * 9 // 10]": OWN,
        "' '.join(text.split())[:_LONGEST_MARKER]": OWN,
    },
    "cli/importing.py": {"names[:_SHOWN]": ITEMS},
    "cli/inspect.py": {"data[at:at + 16]": DATA, "row[:8]": DATA},
    "cli/new.py": {"data[:MAX_SAMPLE]": DATA},
    "cli/outside.py": {"each.datasets[:_MOST_USERS]": ITEMS},
    "cli/render.py": {"affected[:most]": ITEMS, "step.reasons[:_MOST_REASONS]": ITEMS},
    "cli/resumed.py": {"more[:_NAMED - 1]": ITEMS, "found.done[:_LISTED]": ITEMS},
    "cli/run.py": {"found[:_NAMED]": ITEMS},
    "cli/runs.py": {"str(time)[:19]": OWN, "text[-_HASH_END:]": DIGEST, "damaged[:_NAMED]": ITEMS},
    "cli/saved.py": {"moved[:_NAMED]": ITEMS},
    "cli/status.py": {"str(time)[:19]": OWN},
    "cli/streams.py": {"line[-_LONGEST:]": DATA},
    "cli/testing_text.py": {"rows[:2 * _SHOWN]": ITEMS},
    "cli/told.py": {"bad[:_LISTED]": ITEMS},
    "cli/words.py": {"names[:most]": ITEMS},
    "errors.py": {"lines[:kept]": ITEMS, "line[:head]": REDACTED, "line[tail:]": REDACTED},
    "executors/besides.py": {
        "_NOT_IN_NAMES.sub('_', name).strip('._')[-_LONGEST_NAME:]": REDACTED,
    },
    "executors/container.py": {"image.digest[:19]": DIGEST},
    "executors/ftp.py": {
        "redact(one_line(text), request)[:200]": REDACTED,
        "found[:most]": DATA,
        "text[6:8]": DATA,
        "text[8:10]": DATA,
        "text[10:12]": DATA,
        "text[12:14]": DATA,
        "text[:14]": DATA,
    },
    "executors/http.py": {
        "text[:_EXCERPT]": REDACTED,
        "said[:_EXCERPT]": REDACTED,
        "text[:max(0, len(text) - _LONGEST_SECRET)]": REDACTED,
        "found[:most]": DATA,
    },
    "executors/limits.py": {"text[:20]": DATA},
    "executors/part.py": {"re.sub('[^A-Za-z0-9._-]+', '_', last)[-_LONGEST_NAME:]": REDACTED},
    "executors/process.py": {
        "[line for line in lines if line][-_LINES:]": ITEMS,
        "text[-_SHOWN:]": REDACTED,
        "said[:-_KEPT]": DATA,
    },
    "executors/readers/binding.py": {"names[:_LISTED]": ITEMS},
    "executors/readers/columns.py": {"rows[:_COUNTED]": ITEMS},
    "executors/readers/csv.py": {"wrong[:_COUNTED]": ITEMS},
    "executors/readers/drift.py": {"records[:_SAMPLE - self._seen]": ITEMS},
    "executors/readers/geojson.py": {"bad[:_COUNTED]": ITEMS},
    "executors/readers/ndjson.py": {"bad[:_COUNTED]": ITEMS},
    "executors/readers/problems.py": {"problems[:_LISTED]": ITEMS},
    "executors/readers/shapefile_parts.py": {"entries[:_LISTED]": ITEMS},
    "executors/readers/shapefile_text.py": {"bad[:100]": ITEMS},
    "executors/readers/text.py": {"first[:64]": DATA},
    "executors/sample.py": {"inner[:MAX_SAMPLE]": DATA},
    "executors/sample_csv.py": {"data[:4096]": DATA, "found[:most]": ITEMS, "text[:_START]": DATA},
    "executors/sample_json.py": {
        "[each for each in lines if each.strip()][:_ROWS]": ITEMS,
        "found[1][:_ROWS]": ITEMS,
    },
    "executors/spark/archive.py": {
        "hashlib.sha256('\\n'.join(bound).encode()).hexdigest()[:16]": DIGEST,
        "found[:-_KEPT]": ITEMS,
    },
    "executors/spark/door.py": {"written[8:8 + length]": DATA},
    "executors/spark/jvm.py": {"written[8:8 + length]": DATA},
    "executors/spark/resident.py": {
        "hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]": DIGEST,
        "said.hexdigest()[:16]": DIGEST,
    },
    "executors/testing/compare.py": {"among[:_LOOKED]": ITEMS},
    "executors/unpack.py": {"listed[:_SHOWN]": ITEMS},
    "odf/codec.py": {"data[:_HEADER]": DATA},
    "odf/flat_reader.py": {"data[place + 6:place + 38]": DATA},
    "odf/identity.py": {"str(self)[-8:]": DIGEST},
    "planner/compaction.py": {"parts[kept:]": ITEMS},
    "planner/evolution/renames.py": {"by_key.get(key, ())[:_MOST]": ITEMS},
    "project/git.py": {"found[:most]": DATA},
    "project/instances.py": {"findings[:_SHOWN]": ITEMS, "names[:_NAMED]": ITEMS},
    "project/read_steps.py": {"columns[at:at + _MOST_PIECES]": ITEMS},
    "project/revision.py": {"commit[:12]": DIGEST, "answer[at:at + _HEADER]": DATA},
    "project/template_errors.py": {"list(places)[:_CALLERS]": ITEMS},
    "redaction.py": {"text[:most - 3]": REDACTED, "form[:_SHORTEST_PART]": DATA},
    "state/index.py": {"sums[at:at + _SUM_BYTES]": DATA},
}
_LENGTHS = {"most", "limit", "width", "length", "room", "head", "tail", "kept"}
_SHORT = 8  # characters; less of a credential is none


@pytest.mark.holds("server-cut")
def test_every_slice_of_a_fixed_length_is_known() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): set(cuts)
        for path in PACKAGE.rglob("*.py")
        if (cuts := list(slices(ast.parse(path.read_text("utf-8")))))
    }
    assert found == {module: set(known) for module, known in SLICES.items()}, "see `excerpt`"


@pytest.mark.holds("server-cut")
def test_nothing_else_cuts_texts() -> None:
    found = Counter(
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for _ in other_cuts(ast.parse(path.read_text("utf-8")))
    )
    assert found == {"cli/help.py": 2}  # of what odfbuild says of its own codes


def slices(tree: ast.Module) -> Iterator[str]:
    """Yield the slices that keep a number of characters, bytes or entries that is fixed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            lower, upper = node.slice.lower, node.slice.upper
            from_end = isinstance(lower, ast.UnaryOp) or lower_name(lower) in _LENGTHS
            if is_fixed(upper) or (upper is None and from_end and is_fixed(lower)):
                yield ast.unparse(node)


def lower_name(node: ast.expr | None) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def is_fixed(node: ast.expr | None) -> bool:
    match node:
        case ast.UnaryOp(operand=inner):
            return is_fixed(inner)
        case ast.BinOp(left=left, right=right):
            return is_fixed(left) or is_fixed(right)
        case ast.Call(args=args):
            return any(map(is_fixed, args))
        case ast.Constant(value=int(number)):
            return abs(number) >= _SHORT
        case ast.Name(id=name):
            return name.isupper() or name in _LENGTHS
        case ast.Attribute(attr=name):
            return name.isupper()
    return False


def other_cuts(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what else makes texts shorter: `shorten`, and formats with a precision."""
    for node in ast.walk(tree):
        match node:
            case ast.alias(name="shorten") | ast.Name(id="shorten") | ast.Attribute(attr="shorten"):
                yield node
            case ast.FormattedValue(format_spec=ast.JoinedStr() as form) if re.search(
                r"\.(?:\d+|\{.*\})s?'\Z", ast.unparse(form)
            ):
                yield node
            case ast.Constant(value=str(text)) if re.search(r"%-?\d*\.\d+s", text):
                yield node


def said(text: str) -> str:
    return OdfBuildError(text, "why", "fix").what


def found(text: str) -> str:
    return Diagnostic(code="a", what=text, why="", fix="").what


@pytest.mark.holds("server-page")
@pytest.mark.parametrize(
    "cut",
    [
        said,
        found,
        redacted,
        lambda text: said(f"{text[:96]} ..."),  # as Arrow cuts rows
        lambda text: said(f"'{text[:96]}'"),
        lambda text: said(repr(excerpt(text, 63))),
        lambda text: said(last_words(text.encode())),
    ],
)
def test_nothing_is_left_of_what_is_to_be_hidden(cut: object) -> None:
    assert callable(cut)
    for before in (*range(40, 100), 700, 780, 1540, 1560, 1990):
        for after in ("", " it goes on " + "y" * 2400):
            with hiding([SECRET]):
                shown = cut(f"{'x' * before}{SECRET}{after}")
            assert not [at for at in range(len(SECRET) - 4) if SECRET[at : at + 5] in shown], shown


@pytest.mark.holds("server-page")
def test_what_nobody_expected_is_hidden_as_well() -> None:
    with pytest.raises(ValueError, match=r"^no number: \*\*\*$"), hiding([SECRET]):
        int_of(SECRET)
    assert hidden(SECRET) == SECRET


def int_of(text: str) -> int:
    raise ValueError(f"no number: {text}")


def test_short_words_stay() -> None:
    with hiding(["", "a", "de", SECRET]):
        assert said("a code of de, the north") == "a code of de, the north"
