"""`python init_process.py WORD...`: the command line as the child of a process that reaps.

For machines where nobody may make a namespace in which it would be process 1.
"""

import ctypes
import sys

from longshore.cli.main import main
from longshore.worker.init import step_aside

PR_SET_CHILD_SUBREAPER = 36

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    step_aside()
    main(sys.argv[1:])
