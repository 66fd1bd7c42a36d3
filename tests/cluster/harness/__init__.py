"""A real Kubernetes cluster of one node in one scratch folder, for tests."""
