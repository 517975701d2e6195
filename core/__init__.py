"""What one question needs: coordinator, backbone, heads, agents, pool, store. Imports neither webapp nor training."""
