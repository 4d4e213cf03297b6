"""The commands and their registry: name, module and help of each, in the order of the help.

A command is a function in its module, called as the command is: `explain_row` for `explain-row`,
`list_` where Python has a `list`.  Its first parameter is a Given, if it takes the options of a
project; it returns the exit code.  `help` is the first line of its docstring, so that all commands
can be listed without a module of theirs; the list has its first sentence.
"""

# ruff: noqa: E501 - a line a command, however long

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class RegisteredCommand:
    """A command: its name, its module below this package, its help, and settings of its parser."""

    name: str
    module: str
    help: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegisteredGroup:
    """Commands behind one word; `default` is the one that is meant where none is named.

    With `no_args_is_help` the word alone shows the help.
    """

    name: str
    help: str
    commands: tuple[RegisteredCommand, ...]
    default: str | None = None
    no_args_is_help: bool = False


# fmt: off
SECTIONS: Mapping[str, tuple[RegisteredCommand | RegisteredGroup, ...]] = {
    "Definitions": (
        RegisteredCommand("init", "author.init", "Create a new project with a small example."),
        RegisteredCommand("new", "author.new", "Write the definition of a dataset, from a sample of its data."),
        RegisteredCommand("import", "author.import_", "Import an existing dataset and write its definition."),
        RegisteredCommand("fmt", "author.fmt", "Format definitions: indentation and order of keys. Comments are preserved."),
        RegisteredCommand("mv", "author.mv", "Rename a dataset, its uses as input and its tests. Adds a moved: entry."),
        RegisteredCommand("list", "author.list", "List the datasets of the project. With kind, inputs, query class, tags, owner and file."),
        RegisteredCommand("graph", "author.graph", "Draw the graph of datasets: which one reads which."),
        RegisteredCommand("render", "author.render", "Print the YAML of datasets after templating. Included files are part of it."),
        RegisteredCommand("convert", "author.convert", "Convert a manifest to YAML, JSON or FlatBuffers. The format of the input is detected."),
        RegisteredCommand("upgrade", "author.upgrade", "Rewrite manifests of older specifications. Comments and layout are preserved."),
        RegisteredCommand("schema", "author.schema", "Print a JSON Schema for editors, or list the kinds."),
        RegisteredCommand("lsp", "editor.lsp", "Run a language server for editors (Language Server Protocol). It uses stdin and stdout."),
    ),
    "Checks": (
        RegisteredCommand("check", "check.check", "Report all problems of the project. Needs no network and starts no JVM."),
        RegisteredCommand("test", "check.test", "Run unit tests of queries and checks of rows. Only the checks need a workspace."),
        RegisteredCommand("lock", "check.lock", "Write odfbuild.lock: packages, remote inputs, columns."),
        RegisteredGroup(
            "deps",
            "Fetch the packages of the project.",
            (
                RegisteredCommand("install", "check.deps", "Fetch what odfbuild.lock pins into packages/."),
                RegisteredCommand("update", "check.deps", "Resolve revisions again, pin them in odfbuild.lock, and fetch them."),
            ),
            no_args_is_help=True,
        ),
        RegisteredCommand("accept", "author.accept", "Accept a finding of the gate. Adds an entry to odfbuild.yaml, to be reviewed in git."),
        RegisteredCommand("verify", "check.verify", "Check that blocks, files and rows are as recorded. Includes hashes, links and rules."),
        RegisteredCommand("doctor", "check.doctor", "Check this machine and the workspace. Says how to fix each problem."),
    ),
    "Plan and build": (
        RegisteredCommand("plan", "plan.plan", "Show what would be appended, what would run, and why. Changes nothing."),
        RegisteredCommand("apply", "apply.apply", "Carry out a plan. Makes it and asks for confirmation, or takes a saved one."),
        RegisteredCommand("run", "apply.run", "Ingest new data of sources and update derivatives. Changed definitions are not applied."),
        RegisteredCommand("ingest", "apply.ingest", "Push files into a root dataset, each as one commit. Needs a push source."),
        RegisteredCommand("watermark", "apply.watermark", "Show the watermark of a dataset, or advance that of a root. It never moves back.", {"ignore_unknown_options": True}),
        RegisteredCommand("runs", "apply.runs", "List past runs, or show the steps of one. Times and heads are included."),
        RegisteredCommand("undo", "apply.undo", "Reset every dataset to its head before a run. Blocks that the run wrote are dropped."),
        RegisteredCommand("explain", "plan.explain", "Explain why a dataset will or will not run. Names files and lines."),
        RegisteredCommand("diff", "plan.diff", "Compare two states of a dataset. Definition and schema, or rows."),
        RegisteredCommand("drift", "plan.drift", "Report changes to chains that this project did not make. Exit code 2 if any."),
        RegisteredGroup(
            "ci",
            "Write a saved plan as markdown for CI.",
            (
                RegisteredCommand("comment", "plan.ci", "Write the body of one pull request comment, as markdown."),
                RegisteredCommand("summary", "plan.ci", "Write a summary of a run, as markdown: append it to $GITHUB_STEP_SUMMARY."),
            ),
        ),
    ),
    "Read": (
        RegisteredCommand("status", "read.status", "Show the state of datasets: head, watermark, lag, last result. Also who holds a lock."),
        RegisteredCommand("show", "read.show", "Show rows of a dataset: the changelog or the current rows."),
        RegisteredCommand("sql", "read.sql", "Query datasets by name. Read-only."),
        RegisteredCommand("log", "read.log", "Show the metadata chain of a dataset, newest block first."),
        RegisteredCommand("explain-row", "read.explain_row", "Explain which rows a record was made of. Follows queries down to the sources."),
        RegisteredCommand("impact", "read.impact", "Show what a change of a dataset or a column would affect."),
        RegisteredGroup(
            "lineage",
            "Show what a dataset was made of, and what was made of it. Other relations can be added.",
            (
                RegisteredCommand("show", "read.lineage", "Show the lineage of a dataset. `odfbuild lineage NAME` is short for this."),
                RegisteredCommand("add", "read.lineage", "Record that a dataset was made of another one, which may be anywhere."),
                RegisteredCommand("remove", "read.lineage", "Remove what was recorded with `add`. Relations from chains cannot be removed."),
                RegisteredCommand("home", "read.lineage", "Show or set the home of a dataset: the place, index or repository that keeps it."),
                RegisteredCommand("import", "read.lineage", "Import relations and homes from files: all of them, or none."),
                RegisteredCommand("export", "read.lineage", "Print all relations and homes as CSV, or the sources of one dataset as an EO3 document."),
            ),
            default="show",
            no_args_is_help=True,
        ),
        RegisteredGroup(
            "inspect",
            "Show one block, schema, query or saved plan.",
            (
                RegisteredCommand("block", "plan.inspect", "Show all of one block, as a manifest or byte by byte."),
                RegisteredCommand("schema", "plan.inspect", "Show the columns of a dataset, system columns included."),
                RegisteredCommand("query", "plan.inspect", "Show the query in force of a dataset: engine, inputs, steps."),
                RegisteredCommand("plan", "plan.inspect", "Print a saved plan in any format; a warning says if it is stale."),
            ),
        ),
        RegisteredGroup(
            "docs",
            "Build an HTML catalogue of the project.",
            (
                RegisteredCommand("build", "read.docs", "Write the catalogue of the project as one offline HTML file: datasets, graph, plan, run."),
            ),
            no_args_is_help=True,
        ),
    ),
    "Maintenance": (
        RegisteredCommand("rebuild", "apply.rebuild", "Rebuild the rows of derivative datasets from their inputs."),
        RegisteredCommand("reset", "apply.reset", "Reset datasets to an earlier block. Later blocks are dropped."),
        RegisteredCommand("compact", "apply.compact", "Rewrite chains with slices merged, or without their data. Readers can diverge."),
        RegisteredCommand("retire", "apply.retire", "Remove datasets that are no longer declared. Their files stay until gc."),
        RegisteredCommand("gc", "manage.gc", "Delete objects that nothing refers to any more."),
        RegisteredGroup(
            "ref",
            "Manage named references to blocks of a dataset.",
            (
                RegisteredCommand("list", "manage.ref", "List the references of a dataset, and how far each is from the head."),
                RegisteredCommand("set", "manage.ref", "Create a reference to a block, or move one forward. Only apply moves the head."),
                RegisteredCommand("delete", "manage.ref", "Delete a reference. Blocks and data stay."),
            ),
        ),
        RegisteredCommand("unlock", "manage.unlock", "Release a lease in an object store. It does not matter who holds it."),
        RegisteredGroup(
            "workspace",
            "Move the workspace to another place.",
            (
                RegisteredCommand("move", "manage.workspace", "Copy the workspace to a folder or an object store, byte for byte. The old one stays."),
            ),
            no_args_is_help=True,
        ),
    ),
    "Sharing": (
        RegisteredGroup(
            "repo",
            "List, add, check and index repositories of datasets.",
            (
                RegisteredCommand("list", "share.repo", "List the repositories of the project and of your profiles."),
                RegisteredCommand("add", "share.repo", "Add a repository to odfbuild.yaml, or to your own profiles.yaml."),
                RegisteredCommand("check", "share.repo", "Check whether repositories can be read, and whether it is safe to push to them."),
                RegisteredCommand("index", "share.repo", "Rebuild the index of repositories, which search and look-ups by id read."),
            ),
            no_args_is_help=True,
        ),
        RegisteredCommand("search", "share.search", "List the datasets of repositories. They are found by what they publish."),
        RegisteredCommand("clone", "share.pull", "Copy a dataset of a repository into the workspace."),
        RegisteredCommand("pull", "share.pull", "Fetch new blocks of remote datasets. All are checked before any is visible."),
        RegisteredCommand("push", "share.push", "Send blocks that a repository lacks. The head is signed, and written last."),
        RegisteredCommand("sign", "share.sign", "Sign the heads of datasets. Push does this by itself if the workspace has the key."),
        RegisteredCommand("delegate", "share.delegate", "Let another key sign heads of a dataset for some days. Without a key, list who may."),
        RegisteredGroup(
            "key",
            "List, make, export and import private keys.",
            (
                RegisteredCommand("list", "manage.key", "List the private keys of the workspace, and warn of those that others can read."),
                RegisteredCommand("new", "manage.key", "Make a working key, to which a dataset's key can delegate, and print its did:key."),
                RegisteredCommand("export", "manage.key", "Write the private key of a dataset to a file that only you can read."),
                RegisteredCommand("import", "manage.key", "Import a private key into the workspace. A sealed key stays sealed."),
            ),
        ),
        RegisteredCommand("serve", "share.serve", "Serve the datasets of the workspace. Anyone permitted can pull; pushing needs a token."),
        RegisteredGroup(
            "token",
            "Make, list and revoke the tokens of a server.",
            (
                RegisteredCommand("new", "share.token", "Make a token and print it once: only its hash is stored."),
                RegisteredCommand("list", "share.token", "List the tokens of the server: what each allows, and until when."),
                RegisteredCommand("revoke", "share.token", "Revoke a token. A running server refuses it at once."),
            ),
            no_args_is_help=True,
        ),
    ),
    "The program": (
        RegisteredGroup(
            "engine",
            "Keep an engine running, serve it, or upgrade its version.",
            (
                RegisteredCommand("upgrade", "manage.engine", "Rerun steps of other engine versions or engines; if results are equal, record this one."),
                RegisteredCommand("start", "manage.engine", "Start an engine that keeps running, so that later commands need not start their own."),
                RegisteredCommand("stop", "manage.engine", "Stop the resident engine once no command uses it."),
                RegisteredCommand("plugin", "manage.engine_plugin", "Write the plugin that a server of Spark Connect needs, as a JAR file."),
                RegisteredCommand("serve", "manage.engine_serve", "Serve Spark and DataFusion to coordinators over gRPC, until stopped."),
                RegisteredCommand("status", "manage.engine", "Show whether an engine is resident, who uses it, and if not used why."),
            ),
        ),
        RegisteredGroup(
            "step",
            "Carry out a step of a coordinator on another machine.",
            (
                RegisteredCommand("run", "manage.step", "Carry out the request of a job once, and write the answer next to it."),
            ),
            no_args_is_help=True,
        ),
        RegisteredCommand("completion", "manage.completion", "Print a completion script for a shell. It completes commands, options and names."),
        RegisteredCommand("version", "manage.version", "Print versions: odfbuild, Python, engine, specification."),
        RegisteredCommand("help", "plan.help", "Explain a rule of the gate, an error, or the exit codes."),
    ),
}
"""The commands by the titles that the help lists them under."""
# fmt: on
REGISTRY: tuple[RegisteredCommand | RegisteredGroup, ...] = tuple(
    each for commands in SECTIONS.values() for each in commands
)
