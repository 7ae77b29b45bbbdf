package cluster

import "github.com/nodetrail/nodetrail/nodeadmission"

// The sources of a volume that can name a secret, in the order of the reference's switch: the first one that is there counts.
const (
	volAzureFile = iota
	volCephFS
	volCinder
	volFlex
	volProjected
	volRBD
	volSecret
	volScaleIO
	volISCSI
	volStorageOS
	volCSI
	numVolumeSources
)

// volumeScratch is one volume. Its lists are the tails of the pod's, so that a source that comes too late can be cut off again.
type volumeScratch struct {
	name       string
	present    [numVolumeSources]bool
	secret     [numVolumeSources]string
	projected  [2]int // the part of podScratch.secrets that comes from a projected source
	configMaps int    // where those of a projected source begin
	configMap  string
	isMap      bool
	claim      string
	isClaim    bool
	isGeneric  bool
}

func (d *decoder) volume() {
	t := &d.pod
	v := volumeScratch{projected: [2]int{len(t.secrets), len(t.secrets)}, configMaps: len(t.configMaps)}
	d.members(func(key string) { d.volumeMember(&v, key) })

	first := 0
	for first < numVolumeSources && !v.present[first] {
		first++
	}
	if first != volProjected {
		t.secrets = t.secrets[:v.projected[0]]
		if first < numVolumeSources {
			t.secrets = append(t.secrets, v.secret[first])
		}
	}
	if !v.present[volProjected] && v.isMap {
		t.configMaps = append(t.configMaps, v.configMap)
	}
	switch {
	case v.isClaim:
		t.claims = append(t.claims, v.claim)
		t.uses = append(t.uses, nodeadmission.Use{Kind: nodeadmission.UseClaim, Name: v.claim})
	case v.isGeneric:
		t.generic = append(t.generic, len(t.claims))
		t.claims = append(t.claims, v.name)
	}
}

func (d *decoder) volumeMember(v *volumeScratch, key string) {
	// direct reads a source that holds the secret's name itself, ref one that holds a reference.
	direct := func(i int, member string) { v.secret[i], v.present[i] = d.name(member) }
	ref := func(i int, member string) {
		v.present[i] = d.members(func(key string) {
			if key == member {
				v.secret[i], _ = d.name("name")
			} else {
				d.s.Skip()
			}
		})
	}
	switch key {
	case "name":
		v.name = d.text()
	case "azureFile":
		d.pod.special = true
		direct(volAzureFile, "secretName")
	case "cephfs":
		ref(volCephFS, "secretRef")
	case "cinder":
		d.pod.special = true
		ref(volCinder, "secretRef")
	case "flexVolume":
		ref(volFlex, "secretRef")
	case "projected":
		v.present[volProjected] = d.members(func(key string) {
			if key == "sources" {
				d.each(d.projection)
			} else {
				d.s.Skip()
			}
		})
	case "rbd":
		ref(volRBD, "secretRef")
	case "secret":
		direct(volSecret, "secretName")
	case "scaleIO":
		ref(volScaleIO, "secretRef")
	case "iscsi":
		ref(volISCSI, "secretRef")
	case "storageos":
		ref(volStorageOS, "secretRef")
	case "csi":
		d.pod.special = true
		ref(volCSI, "nodePublishSecretRef")
	case "configMap":
		v.configMap, v.isMap = d.name("name")
	case "persistentVolumeClaim":
		v.claim, v.isClaim = d.name("claimName")
	case "awsElasticBlockStore", "azureDisk", "gcePersistentDisk", "vsphereVolume", "portworxVolume":
		d.pod.special = true
		d.s.Skip()
	case "ephemeral":
		d.pod.special = true
		v.isGeneric = d.members(func(string) { d.s.Skip() })
	default:
		d.s.Skip()
	}
}

func (d *decoder) projection() {
	d.members(func(key string) {
		switch key {
		case "serviceAccountToken":
			if audience, ok := d.name("audience"); ok {
				d.pod.uses = append(d.pod.uses, nodeadmission.Use{Kind: nodeadmission.UseAudience, Name: audience})
			}
		case "podCertificate":
			if signer, ok := d.name("signerName"); ok {
				d.pod.uses = append(d.pod.uses, nodeadmission.Use{Kind: nodeadmission.UseSigner, Name: signer})
			}
		case "secret":
			d.nameInto("name", &d.pod.secrets)
		case "configMap":
			d.nameInto("name", &d.pod.configMaps)
		default:
			d.s.Skip()
		}
	})
}
