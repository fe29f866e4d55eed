"""Several processes as one trainer: process groups, sharded parameters, context parallel attention, gathering of full tensors."""
