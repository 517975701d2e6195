"""Run untrusted Python: bubblewrap, or landlock + seccomp, or refuse."""
