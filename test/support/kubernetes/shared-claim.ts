/** A claim `artifacts` that mounts a folder of this machine into pods, like a file system that all nodes mount. */
export function sharedClaim({ namespace, path }: { namespace: string; path: string }): object[] {
  const volume = `artifacts-${namespace}`
  const common = { accessModes: ['ReadWriteMany'], storageClassName: '' }
  return [
    {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: volume },
      spec: {
        ...common,
        capacity: { storage: '1Gi' },
        persistentVolumeReclaimPolicy: 'Retain',
        hostPath: { path },
        claimRef: { namespace, name: 'artifacts' },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name: 'artifacts', namespace },
      spec: { ...common, volumeName: volume, resources: { requests: { storage: '1Gi' } } },
    },
  ]
}
