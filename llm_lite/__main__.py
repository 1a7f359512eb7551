"""`python -m llm_lite` is the command `llm-lite`."""

import sys

from llm_lite.cli.entry import main

sys.exit(main())
