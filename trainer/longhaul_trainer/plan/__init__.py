"""Requirements of a layout, computed without a GPU: model sizes, bytes per rank, tokens in flight."""
