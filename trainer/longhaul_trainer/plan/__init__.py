"""What a layout needs before a GPU is touched: sizes of models, bytes per rank, tokens in flight."""
