"""uca, a micro compute architecture: a simulated NPU on a Kria KV260, as an executor of llm-lite.

`compiler.py` cuts matrix products into commands, `driver.py` says how a program of commands is
started, `simulator.py` runs it with exact results (`arithmetic.py`), and `account.py` counts
cycles, bytes and stalls. `executor.py` is what llm-lite knows of it.
"""

from llm_lite_uca.executor import Uca

ACCELERATOR = Uca()
