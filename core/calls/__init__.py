"""Everything between the coordinator and an agent: deadline, retry, breaker, budget, ledger, cache."""
