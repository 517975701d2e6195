"""The commands of the core: ask, route, doctor, pool."""
