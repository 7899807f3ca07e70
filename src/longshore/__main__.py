"""`python -m longshore` is the command line."""

from longshore.cli.main import main

main(prog_name="longshore")
