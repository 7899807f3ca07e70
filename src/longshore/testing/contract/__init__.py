"""The contract suite: what every engine must do, told as tests.

An engine's whole test module is `from longshore.testing.contract import *`, beside fixtures
`engine` (migrated and empty), `clock` (its ManualClock) and `reopen` (opens the same store
once more, as another process would).
"""

from longshore.testing.contract.accounts import *
from longshore.testing.contract.answering import *
from longshore.testing.contract.asking_again import *
from longshore.testing.contract.attaching import *
from longshore.testing.contract.auditing import *
from longshore.testing.contract.backpressure import *
from longshore.testing.contract.borrowing import *
from longshore.testing.contract.breaking import *
from longshore.testing.contract.cancelling import *
from longshore.testing.contract.claim_order import *
from longshore.testing.contract.claiming import *
from longshore.testing.contract.consuming import *
from longshore.testing.contract.exchanging import *
from longshore.testing.contract.faults import *
from longshore.testing.contract.fencing import *
from longshore.testing.contract.flow import *
from longshore.testing.contract.idempotency import *
from longshore.testing.contract.independence import *
from longshore.testing.contract.inspecting import *
from longshore.testing.contract.keeping import *
from longshore.testing.contract.key_rates import *
from longshore.testing.contract.late_limits import *
from longshore.testing.contract.late_sharing import *
from longshore.testing.contract.limiting import *
from longshore.testing.contract.line_ends import *
from longshore.testing.contract.lining import *
from longshore.testing.contract.opening import *
from longshore.testing.contract.outbox import *
from longshore.testing.contract.parts import *
from longshore.testing.contract.pausing import *
from longshore.testing.contract.probing import *
from longshore.testing.contract.promoting import *
from longshore.testing.contract.prompting import *
from longshore.testing.contract.pruning import *
from longshore.testing.contract.reclaiming import *
from longshore.testing.contract.records import *
from longshore.testing.contract.renewing import *
from longshore.testing.contract.repeating import *
from longshore.testing.contract.replaying import *
from longshore.testing.contract.reporting import *
from longshore.testing.contract.retention import *
from longshore.testing.contract.scheduling import *
from longshore.testing.contract.settling import *
from longshore.testing.contract.sharing import *
from longshore.testing.contract.submitting import *
from longshore.testing.contract.transitions import *
from longshore.testing.contract.uniqueness import *
from longshore.testing.contract.webhooks import *
