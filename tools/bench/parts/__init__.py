"""Parts of tools/bench/run: a module each, whose measure(lines, options) takes figures and says them as lines."""
