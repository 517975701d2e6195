"""Graders: a reply and the hidden answer -> reward 0 or 1, what the reply committed to, and a reason to read."""
