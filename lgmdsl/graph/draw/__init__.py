"""Drawings of a model graph: dot, mermaid and SVG."""
