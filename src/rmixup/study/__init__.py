"""Studies: spec, cells, store, runner, statistics, presets. May not be here: training loops, HTML."""
