"""The project folder: YAML in, declared datasets out, every value with its place."""

PROJECT_FILE = "odfbuild.yaml"
