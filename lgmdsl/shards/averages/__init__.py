"""The groups of a shard by methods that average over q of the shared latents."""
