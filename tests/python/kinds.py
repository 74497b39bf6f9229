"""The smallest valid object of each kind, as (apiVersion, kind): (body without metadata, change)."""
CONTAINER = {"name": "c", "image": "x"}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
SELECTOR = {"matchLabels": {"a": "b"}}
REQUESTS = [{"name": "r", "exactly": {"deviceClassName": "class.example.com"}}]
REF = {"kind": "Pod", "namespace": "default", "name": "p"}
LABEL = {"metadata": {"labels": {"changed": "yes"}}}

CLAIMS = {
    "v1": REQUESTS, "v1beta2": REQUESTS,
    "v1beta1": [{"name": "r", "deviceClassName": "class.example.com"}],
}
BODIES = {
    ("v1", "Namespace"): {}, ("v1", "Node"): {}, ("v1", "ConfigMap"): {"data": {"k": "v"}},
    ("v1", "Secret"): {"stringData": {"k": "v"}}, ("v1", "ServiceAccount"): {},
    ("v1", "Pod"): {"spec": {"containers": [CONTAINER]}},
    ("v1", "PodTemplate"): {"template": TEMPLATE},
    ("v1", "Event"): {"involvedObject": REF, "reason": "R", "message": "m", "type": "Normal"},
    ("v1", "Service"): {"spec": {"ports": [{"port": 80}]}},
    ("v1", "Endpoints"): {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    ("v1", "LimitRange"): {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
    ("v1", "ResourceQuota"): {"spec": {"hard": {"pods": "10000"}}},
    ("v1", "PersistentVolume"): {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}},
    ("v1", "PersistentVolumeClaim"): {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ("v1", "ReplicationController"): {"spec": {"selector": {"a": "b"}, "template": TEMPLATE}},
    ("apps/v1", "Deployment"): {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    ("apps/v1", "ReplicaSet"): {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    ("apps/v1", "DaemonSet"): {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    ("apps/v1", "StatefulSet"): {"spec": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "s"}},
    ("apps/v1", "ControllerRevision"): {"revision": 1, "data": {"a": 1}},
    ("batch/v1", "Job"): {"spec": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}},
    ("batch/v1", "CronJob"): {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}}}},
    ("coordination.k8s.io/v1", "Lease"): {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    ("events.k8s.io/v1", "Event"): {"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/c", "reportingInstance": "i", "action": "A",
                                    "reason": "R", "type": "Normal", "regarding": REF, "note": "n"},
    ("resource.k8s.io/v1beta2", "DeviceTaintRule"): {"spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": {"key": "example.com/k", "effect": "NoExecute"}}},
    ("resource.k8s.io/v1alpha3", "DeviceTaintRule"): {"spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": {"key": "example.com/k", "effect": "NoExecute"}}},
    ("policy/v1", "PodDisruptionBudget"): {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    ("scheduling.k8s.io/v1", "PriorityClass"): {"value": 5},
    ("node.k8s.io/v1", "RuntimeClass"): {"handler": "h"},
    ("storage.k8s.io/v1", "StorageClass"): {"provisioner": "p.example.com"},
    ("networking.k8s.io/v1", "NetworkPolicy"): {"spec": {"podSelector": {}}},
    ("networking.k8s.io/v1", "IngressClass"): {"spec": {"controller": "example.com/c"}},
    ("autoscaling/v2", "HorizontalPodAutoscaler"): {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 2}},
    ("rbac.authorization.k8s.io/v1", "Role"): {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                                                      "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}]},
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                                                             "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}]},
}
for _v, _r in CLAIMS.items():
    _g = "resource.k8s.io/" + _v
    BODIES[_g, "ResourceClaim"] = {"spec": {"devices": {"requests": _r}}}
    BODIES[_g, "ResourceClaimTemplate"] = {"spec": {"spec": {"devices": {"requests": _r}}}}
    BODIES[_g, "DeviceClass"] = {"spec": {"selectors": [{"cel": {"expression": "true"}}]}}
    BODIES[_g, "ResourceSlice"] = {"spec": {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                                            "devices": [{"name": "d0", "basic": {}} if _v == "v1beta1" else {"name": "d0"}]}}
