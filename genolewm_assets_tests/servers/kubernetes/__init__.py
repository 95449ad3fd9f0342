"""A small Kubernetes on loopback: API server, scheduler, job controller, and nodes that run pods as processes.

It has what the unpatched ``kubernetes`` client, ``K8sRunLauncher`` and ``k8s_job_executor`` use, and no more. No image
is pulled and no container made: a pod is the command of its container with the environment of its container.
"""
