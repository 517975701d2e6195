"""How a head is made: tasks, graders, optimisers, evolution. Imports core, never webapp."""
