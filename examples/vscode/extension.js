// Starts `odfbuild lsp` for the projects of a window, and ends it with the window.
"use strict";

const { workspace } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

async function activate() {
  const [command, ...args] = workspace.getConfiguration("odfbuild").get("command");
  client = new LanguageClient(
    "odfbuild",
    "odfbuild",
    { command, args, transport: TransportKind.stdio },
    {
      documentSelector: ["**/*.{yaml,yml,j2,sql}", "**/odfbuild.lock"].map((pattern) => ({
        scheme: "file",
        pattern,
      })),
    }
  );
  await client.start();
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
