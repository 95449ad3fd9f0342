"""gnomAD files to a variant shard."""
