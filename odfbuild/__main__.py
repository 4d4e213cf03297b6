"""The command as `python -m odfbuild`, for where its script is not on the path."""

from odfbuild.cli.main import program

if __name__ == "__main__":
    program()
