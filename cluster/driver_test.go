package cluster

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// TestDrivers holds the drivers of persistent volumes against those of volumes that Kubernetes' types have read.
func TestDrivers(t *testing.T) {
	d := newDecoder()
	for _, spec := range []string{
		`{}`, `{"csi":{"driver":"d","volumeHandle":"h"}}`, `{"csi":{}}`, `{"csi":null}`, `{"nfs":{"server":"s","path":"/"}}`,
		`{"awsElasticBlockStore":{"volumeID":"aws://eu/vol-0a","fsType":"ext4"}}`, `{"awsElasticBlockStore":{"volumeID":"no"}}`, `{"awsElasticBlockStore":{"volumeID":"vol-1"}}`,
		`{"gcePersistentDisk":{"pdName":"p"}}`, `{"cinder":{"volumeID":"v"}}`, `{"cinder":null}`, `{"azureDisk":{"diskName":"n","diskURI":"u"}}`,
		`{"azureDisk":{"kind":"Managed"}}`, `{"azureDisk":{"kind":"Dedicated"}}`, `{"azureDisk":{"kind":null}}`, `{"azureFile":{"secretName":"s","shareName":"n"}}`,
		`{"azureFile":{"secretName":"s","secretNamespace":""}}`, `{"azureFile":{"secretName":"s","secretNamespace":"n"}}`,
		`{"azureFile":{"secretName":"s"},"claimRef":{"namespace":"n","name":"c"}}`, `{"vsphereVolume":{"volumePath":"p"}}`, `{"portworxVolume":{"volumeID":"v"}}`,
	} {
		for _, labels := range []string{``, `,"labels":{"topology.kubernetes.io/zone":"a__b"}`, `,"labels":{"failure-domain.beta.kubernetes.io/zone":"a"}`} {
			text := fmt.Sprintf(`{"metadata":{"name":"v"%s},"spec":%s}`, labels, spec)
			var pv corev1.PersistentVolume
			if err := json.Unmarshal([]byte(text), &pv); err != nil {
				t.Fatal(err)
			}
			o, err := d.object(kindPersistentVolume, []byte(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if want := nodeadmission.DriverOf(&pv); !reflect.DeepEqual(*o.admitted.driver, want) {
				t.Errorf("%s: %+v, want %+v", text, *o.admitted.driver, want)
			}
		}
	}
}
