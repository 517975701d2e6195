"""The pages and HTTP routes. Imports core, never training; it shows and decides nothing."""
