"""A stub of the Kubernetes API on loopback, for what dagster-k8s asks; a pod is a process of this machine."""
