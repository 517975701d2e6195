"""Tasks: one file per benchmark, with its items, its splits and how a reply is graded. `catalogue` has the names."""
