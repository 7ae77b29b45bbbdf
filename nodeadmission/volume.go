package nodeadmission

import (
	"encoding/json"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// UseKind says how a pod's volume leads to audiences or signers.
type UseKind uint8

// The kinds of uses.
const (
	// UseAudience is a projected token: Name is its audience, which may be empty.
	UseAudience UseKind = iota
	// UseSigner is a projected pod certificate: Name is its signer.
	UseSigner
	// UseClaim is a persistent volume claim by name, an ephemeral volume's too.
	UseClaim
	// UseDriver is an inline CSI volume by the name of its driver.
	UseDriver
	// UseInTree is an inline volume of the tree that a CSI driver took over.
	UseInTree
)

// Use is a volume of a pod, as far as the plugin reads it.
type Use struct {
	Kind   UseKind
	Name   string
	Driver *Driver // for UseInTree
}

// Driver is what a volume tells of its CSI driver.
type Driver struct {
	// Name is empty for a volume without one.
	Name string
	// InTree is true for a volume of the tree that a CSI driver took over.
	InTree bool
	// Err is why upstream cannot translate the volume, Unsure that this is not known.
	Err    string
	Unsure bool
}

// The CSI drivers that took over volumes of the tree (k8s.io/csi-translation-lib).
const (
	driverEBS       = "ebs.csi.aws.com"
	driverGCE       = "pd.csi.storage.gke.io"
	driverCinder    = "cinder.csi.openstack.org"
	driverAzureDisk = "disk.csi.azure.com"
	driverAzureFile = "file.csi.azure.com"
	driverVSphere   = "csi.vsphere.vmware.com"
	driverPortworx  = "pxd.portworx.com"
)

// UsesOf returns the uses of a pod's volumes, in their order. The volumes are the JSON array spec.volumes of the pod; ok is false if it
// cannot be read.
func UsesOf(pod string, volumes []byte) (uses []Use, ok bool) {
	var list []volumeBody
	if !decode(volumes, &list) {
		return nil, false
	}
	for _, v := range list {
		for _, s := range v.sources() {
			var source struct {
				Audience   string `json:"audience"`
				SignerName string `json:"signerName"`
			}
			if s.has("serviceAccountToken") && decode(s["serviceAccountToken"], &source) {
				uses = append(uses, Use{Kind: UseAudience, Name: source.Audience})
			}
			if s.has("podCertificate") && decode(s["podCertificate"], &source) {
				uses = append(uses, Use{Kind: UseSigner, Name: source.SignerName})
			}
		}
		if u, ok := v.use(pod); ok {
			uses = append(uses, u)
		}
	}
	return uses, true
}

// use is what a volume itself leads to, by the first of the sources that upstream looks for.
func (v volumeBody) use(pod string) (Use, bool) {
	var source struct {
		VolumeClaimTemplate json.RawMessage `json:"volumeClaimTemplate"`
		ClaimName           string          `json:"claimName"`
		Driver              string          `json:"driver"`
		VolumeID            string          `json:"volumeID"`
		Kind                *string         `json:"kind"`
	}
	if v.has("ephemeral") && decode(v["ephemeral"], &source) && len(source.VolumeClaimTemplate) > 0 && string(source.VolumeClaimTemplate) != "null" {
		return Use{Kind: UseClaim, Name: pod + "-" + v.name()}, true
	}
	kind := v.first(usedSources)
	if kind == "" || !decode(v[kind], &source) {
		return Use{}, false
	}
	switch kind {
	case "persistentVolumeClaim":
		return Use{Kind: UseClaim, Name: source.ClaimName}, true
	case "csi":
		return Use{Kind: UseDriver, Name: source.Driver}, true
	case "awsElasticBlockStore":
		return inTree(elastic(source.VolumeID)), true
	case "azureDisk":
		return inTree(azureDisk(source.Kind)), true
	}
	return inTree(Driver{Name: inTreeDrivers[kind], InTree: true}), true
}

func inTree(d Driver) Use { return Use{Kind: UseInTree, Driver: &d} }

var usedSources = []string{
	"persistentVolumeClaim", "csi", "awsElasticBlockStore", "azureDisk", "gcePersistentDisk", "cinder", "azureFile", "vsphereVolume", "portworxVolume",
}

var inTreeDrivers = map[string]string{
	"gcePersistentDisk": driverGCE, "cinder": driverCinder, "azureFile": driverAzureFile, "vsphereVolume": driverVSphere,
	"portworxVolume": driverPortworx,
}

// DriverOf returns what a persistent volume tells of its driver.
func DriverOf(pv *corev1.PersistentVolume) Driver {
	s := &pv.Spec
	switch {
	case s.CSI != nil:
		return Driver{Name: s.CSI.Driver}
	case s.AWSElasticBlockStore != nil:
		return elastic(s.AWSElasticBlockStore.VolumeID)
	case s.GCEPersistentDisk != nil:
		// Zones in a label are translated to a region, which fails for those of two.
		zones := pv.Labels[corev1.LabelFailureDomainBetaZone] + pv.Labels[corev1.LabelTopologyZone]
		return Driver{Name: driverGCE, InTree: true, Unsure: strings.Contains(zones, "__")}
	case s.Cinder != nil:
		return Driver{Name: driverCinder, InTree: true}
	case s.AzureDisk != nil:
		return azureDisk((*string)(s.AzureDisk.Kind))
	case s.AzureFile != nil:
		d := Driver{Name: driverAzureFile, InTree: true}
		if ns := s.AzureFile.SecretNamespace; (ns == nil || *ns == "") && (ns != nil || s.ClaimRef == nil || s.ClaimRef.Namespace == "") {
			d.Err = "could not find a secret namespace in PersistentVolumeSource or ClaimRef"
		}
		return d
	case s.VsphereVolume != nil:
		return Driver{Name: driverVSphere, InTree: true}
	case s.PortworxVolume != nil:
		return Driver{Name: driverPortworx, InTree: true}
	}
	return Driver{}
}

var elasticID = regexp.MustCompile(`^aws://[a-z0-9-]*/vol-[0-9a-f]+$`)

func elastic(id string) Driver {
	return Driver{Name: driverEBS, InTree: true, Unsure: strings.HasPrefix(id, "aws://") && !elasticID.MatchString(id)}
}

func azureDisk(kind *string) Driver {
	d := Driver{Name: driverAzureDisk, InTree: true}
	if kind != nil && !strings.EqualFold(*kind, "managed") {
		d.Err = "kind(" + *kind + ") is not supported in csi migration"
	}
	return d
}
