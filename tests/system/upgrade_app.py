"""The app of an upgrade: the lab's tasks, which write down outside the queue what they do.

Run by workers of several versions; the environment says where: LAB_TRIAL, LAB_ACTOR.
"""

import os

from longshore_lab.effects import Effects
from longshore_lab.handlers import mixed
from longshore_lab.ledger import Ledger
from longshore_lab.trial import Trial

trial = Trial.unpack(os.environ["LAB_TRIAL"])
app = mixed(
    trial,
    Ledger(trial.ledgers, os.environ["LAB_ACTOR"], role="worker"),
    Effects(trial.world),
)
