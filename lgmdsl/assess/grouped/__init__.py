"""Exact posteriors by groups: few shared latents, given which the others are independent."""
