"""Run by Python at the start of every process of an experiment with a planted fault."""

from longshore_lab.experiments import plants

plants.plant()
