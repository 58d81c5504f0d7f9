"""What the package offers in Python, behind the lazy names of `lgmdsl`."""
