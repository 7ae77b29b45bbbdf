package cluster

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// volumeSpec reads of a persistent volume's spec what nodeauthz.PersistentVolumeOf and nodeadmission.DriverOf look at, into the API's own type, so that
// what counts is decided there alone.
func (d *decoder) volumeSpec(spec *corev1.PersistentVolumeSpec) {
	d.members(func(key string) {
		switch key {
		case "claimRef":
			if ref := d.reference(); ref != nil {
				spec.ClaimRef = &corev1.ObjectReference{Namespace: ref.Namespace, Name: ref.Name}
			}
		case "azureFile":
			var v corev1.AzureFilePersistentVolumeSource
			if d.members(func(key string) {
				switch key {
				case "secretName":
					v.SecretName = d.copied()
				case "secretNamespace":
					if !d.s.Null() {
						ns := d.copied()
						v.SecretNamespace = &ns
					}
				default:
					d.s.Skip()
				}
			}) {
				spec.AzureFile = &v
			}
		case "cephfs":
			if ref, ok := d.secretIn("secretRef"); ok {
				spec.CephFS = &corev1.CephFSPersistentVolumeSource{SecretRef: ref}
			}
		case "cinder":
			if ref, ok := d.secretIn("secretRef"); ok {
				spec.Cinder = &corev1.CinderPersistentVolumeSource{SecretRef: ref}
			}
		case "flexVolume":
			if ref, ok := d.secretIn("secretRef"); ok {
				spec.FlexVolume = &corev1.FlexPersistentVolumeSource{SecretRef: ref}
			}
		case "rbd":
			if ref, ok := d.secretIn("secretRef"); ok {
				spec.RBD = &corev1.RBDPersistentVolumeSource{SecretRef: ref}
			}
		case "scaleIO":
			if ref, ok := d.secretIn("secretRef"); ok {
				spec.ScaleIO = &corev1.ScaleIOPersistentVolumeSource{SecretRef: ref}
			}
		case "iscsi":
			if ref, ok := d.secretIn("secretRef"); ok {
				spec.ISCSI = &corev1.ISCSIPersistentVolumeSource{SecretRef: ref}
			}
		case "storageos":
			if ref, ok := d.secretIn("secretRef"); ok {
				spec.StorageOS = &corev1.StorageOSPersistentVolumeSource{}
				if r := ref; r != nil {
					spec.StorageOS.SecretRef = &corev1.ObjectReference{Namespace: r.Namespace, Name: r.Name}
				}
			}
		case "csi":
			var v corev1.CSIPersistentVolumeSource
			if d.members(func(key string) {
				switch key {
				case "nodePublishSecretRef":
					v.NodePublishSecretRef = d.reference()
				case "nodeStageSecretRef":
					v.NodeStageSecretRef = d.reference()
				case "nodeExpandSecretRef":
					v.NodeExpandSecretRef = d.reference()
				case "driver":
					v.Driver = d.copied()
				default:
					d.s.Skip()
				}
			}) {
				spec.CSI = &v
			}
		case "awsElasticBlockStore":
			var v corev1.AWSElasticBlockStoreVolumeSource
			if d.members(func(key string) {
				if key == "volumeID" {
					v.VolumeID = d.copied()
				} else {
					d.s.Skip()
				}
			}) {
				spec.AWSElasticBlockStore = &v
			}
		case "azureDisk":
			var v corev1.AzureDiskVolumeSource
			if d.members(func(key string) {
				if key == "kind" && !d.s.Null() {
					kind := corev1.AzureDataDiskKind(d.copied())
					v.Kind = &kind
				} else if key != "kind" {
					d.s.Skip()
				}
			}) {
				spec.AzureDisk = &v
			}
		case "gcePersistentDisk":
			if d.present() {
				spec.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{}
			}
		case "vsphereVolume":
			if d.present() {
				spec.VsphereVolume = &corev1.VsphereVirtualDiskVolumeSource{}
			}
		case "portworxVolume":
			if d.present() {
				spec.PortworxVolume = &corev1.PortworxVolumeSource{}
			}
		default:
			d.s.Skip()
		}
	})
}

// present skips an object, and reports whether it is one and not a null.
func (d *decoder) present() bool { return d.members(func(string) { d.s.Skip() }) }

// secretIn reads a member that refers to a secret, and reports whether there is an object at all.
func (d *decoder) secretIn(name string) (ref *corev1.SecretReference, present bool) {
	present = d.members(func(key string) {
		if key != name {
			d.s.Skip()
		} else if r := d.reference(); r != nil {
			ref = r
		}
	})
	return ref, present
}

// reference reads what names an object by namespace and name, nil for a null.
func (d *decoder) reference() *corev1.SecretReference {
	var ref corev1.SecretReference
	if !d.members(func(key string) {
		switch key {
		case "namespace":
			ref.Namespace = d.copied()
		case "name":
			ref.Name = d.copied()
		default:
			d.s.Skip()
		}
	}) {
		return nil
	}
	return &ref
}

// copied reads a string that shares no memory with the JSON.
func (d *decoder) copied() string { return d.intern(d.text()) }

// persistentVolume makes what the graph needs of what was read.
func (d *decoder) persistentVolume(o *object) {
	d.pv.Name, d.pv.Labels = o.ref.Name, o.admitted.labels
	v := nodeauthz.PersistentVolumeOf(&d.pv)
	v.UID = o.uid
	o.volume = &v
	driver := nodeadmission.DriverOf(&d.pv)
	o.admitted.driver = &driver
	if d.pv.Spec.ClaimRef == nil {
		o.granted = 0
	}
	d.pv = corev1.PersistentVolume{}
}
