package nodeadmission

import (
	"errors"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// serviceAccounts is admitServiceAccount.
func (e *eval) serviceAccounts() Answer {
	if e.op != opCreate || e.subresource != "token" {
		return allowed()
	}
	body, ok := readToken(e.req.Body)
	if !ok {
		return unknown(MissingBody)
	}
	ref := &body.ref
	switch {
	case !body.bound || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "":
		return e.forbid(formTokenUnbound)
	case ref.UID == "":
		return e.forbid(formTokenNoUID)
	}
	if pods, ok := e.a.state.Pods.(TokenPods); ok && (body.audiences <= 1 || !e.a.version.gates.nodeAudience) {
		if asks, s := pods.PodAsksToken(e.namespace, ref.Name, e.req.Node, ref.UID, body.audience, e.at); asks {
			e.saw(&s)
			return allowed()
		}
	}
	pod, known := e.pod(ref.Name)
	switch {
	case !known:
		return unknown(MissingPod)
	case pod == nil:
		return notFound("pod", ref.Name)
	case pod.UID != ref.UID:
		return e.forbid(formTokenUID, ref.UID)
	case pod.Node != e.req.Node:
		return e.forbid(formTokenNode)
	case !e.a.version.gates.nodeAudience:
		return allowed()
	}
	return e.audience(&body, pod)
}

// audience is validateNodeServiceAccountAudience.
func (e *eval) audience(requested *tokenRequest, pod *Pod) Answer {
	if requested.audiences > 1 {
		return e.forbid(formAudiences)
	}
	audience := requested.audience
	if pod.SpecUnknown {
		return unknown(MissingPod)
	}
	found, missing, err := e.uses(pod, audience)
	switch {
	case found:
		return allowed()
	case missing != MissingNothing:
		return unknown(missing)
	case err != nil:
		return e.forbid(formAudienceLookup, audience, err)
	case e.a.version.Minor == 32:
		return e.forbid(formAudience1_32, audience)
	}
	may, known, err := e.authorize("request-serviceaccounts-token-audience", audience, e.name)
	user := e.req.Attributes.GetUser().GetName()
	switch {
	case may:
		return allowed()
	case !known:
		return unknown(MissingAuthorizer)
	case err != nil && e.a.version.Minor < 37:
		return e.forbid(formAudienceError, audience, user, err)
	case err != nil:
		return e.forbid(formAudienceErr, user, audience, err)
	case e.a.version.Minor < 37:
		return e.forbid(formAudience1_36, audience, user)
	}
	return e.forbid(formAudience, user, audience)
}

// authorize asks the authorizer whether the node may do what the pod's volumes do not call for.
func (e *eval) authorize(verb, resource, name string) (may, known bool, err error) {
	if e.a.state.Authorizer == nil {
		return false, false, nil
	}
	e.sampled = true
	return e.a.state.Authorizer.Authorize(authorizer.AttributesRecord{
		User: e.req.Attributes.GetUser(), Verb: verb, Namespace: e.namespace, APIGroup: e.group, APIVersion: e.req.Attributes.GetAPIVersion(),
		Resource: resource, Name: name, ResourceRequest: true,
	}, e.at)
}

// uses is podReferencesAudience. A volume with the audience counts whatever became of the others.
func (e *eval) uses(pod *Pod, audience string) (found bool, missing Missing, err error) {
	var errs []error
	for i := range pod.Uses {
		u := &pod.Uses[i]
		found, lacks, err := e.use(u, audience)
		if found {
			return true, MissingNothing, nil
		}
		if missing == MissingNothing {
			missing = lacks
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return false, missing, utilerrors.NewAggregate(errs)
}

func (e *eval) use(u *Use, audience string) (found bool, missing Missing, err error) {
	switch u.Kind {
	case UseAudience:
		return u.Name == audience, MissingNothing, nil
	case UseDriver:
		return e.driver(u.Name, audience)
	case UseInTree:
		if e.a.version.Minor >= 33 {
			return e.driverOf(u.Driver, audience)
		}
	case UseClaim:
		return e.claimDriver(u.Name, audience)
	}
	return false, MissingNothing, nil
}

// driverOf asks for the driver that an in-tree volume has become.
func (e *eval) driverOf(d *Driver, audience string) (found bool, missing Missing, err error) {
	switch {
	case d.Unsure:
		return false, MissingVolume, nil
	case d.Err != "":
		return false, MissingNothing, errors.New(d.Err)
	case d.Name == "":
		return false, MissingNothing, nil
	}
	return e.driver(d.Name, audience)
}

// claimDriver is getCSIFromPVC.
func (e *eval) claimDriver(claim, audience string) (found bool, missing Missing, err error) {
	if e.a.state.Claims == nil {
		return false, MissingClaim, nil
	}
	volume, s := e.a.state.Claims.ClaimVolume(e.namespace, claim, e.at)
	e.saw(&s)
	switch {
	case volume == nil && !s.Known:
		return false, MissingClaim, nil
	case volume == nil:
		return false, MissingNothing, errors.New(notFoundMessage("persistentvolumeclaim", claim))
	case e.a.state.Volumes == nil:
		return false, MissingVolume, nil
	}
	d, s := e.a.state.Volumes.VolumeDriver(*volume, e.at)
	e.saw(&s)
	switch {
	case d == nil && !s.Known:
		return false, MissingVolume, nil
	case d == nil:
		return false, MissingNothing, errors.New(notFoundMessage("persistentvolume", *volume))
	case d.InTree && e.a.version.Minor < 33:
		return false, MissingNothing, nil
	}
	return e.driverOf(d, audience)
}

// driver is csiDriverHasAudience.
func (e *eval) driver(name, audience string) (found bool, missing Missing, err error) {
	if name == "" {
		return false, MissingNothing, nil
	}
	if e.a.state.Drivers == nil {
		return false, MissingDriver, nil
	}
	audiences, s := e.a.state.Drivers.DriverAudiences(name, e.at)
	e.saw(&s)
	switch {
	case audiences == nil && !s.Known:
		return false, MissingDriver, nil
	case audiences == nil:
		return false, MissingNothing, errors.New(notFoundMessage("csidriver.storage.k8s.io", name))
	}
	return slices.Contains(*audiences, audience), MissingNothing, nil
}

// podCertificates is admitPodCertificateRequest.
func (e *eval) podCertificates() Answer {
	switch {
	case e.verb == "deletecollection":
		return unknown(MissingCollection)
	case !e.a.version.gates.podCertificates:
		return e.forbid(formCertGate)
	case e.op != opCreate:
		return e.forbid(formOperation, e.op.String())
	case e.subresource != "":
		return e.forbid(formSubresource, e.subresource)
	}
	var c certificateBody
	if !decode(e.req.Body, &c) {
		return unknown(MissingBody)
	}
	s := &c.Spec
	if s.NodeName != e.req.Node {
		return e.forbid(formCertNode, s.NodeName, e.req.Node)
	}
	node, known := e.node(s.NodeName)
	podRef := e.namespace + "/" + s.PodName
	switch {
	case !known:
		return unknown(MissingNode)
	case node == nil:
		return fail(formCertNoNode, s.NodeName, notFoundMessage("node", s.NodeName))
	case node.UID != s.NodeUID:
		return fail(formCertNodeUID, podRef, s.NodeUID, node.UID)
	}
	pod, known := e.pod(s.PodName)
	switch {
	case !known:
		return unknown(MissingPod)
	case pod == nil:
		return fail(formCertNoPod, podRef, notFoundMessage("pod", s.PodName))
	case pod.UID != s.PodUID:
		return fail(formCertPodUID, podRef, s.PodUID, pod.UID)
	case pod.Node != s.NodeName:
		return e.forbid(formCertPodNode, podRef, s.NodeName)
	case pod.SpecUnknown:
		return unknown(MissingPod)
	case pod.Mirror:
		return e.forbid(formCertMirror, podRef)
	case pod.ServiceAccount != s.ServiceAccountName:
		return e.forbid(formCertAccount, podRef, s.ServiceAccountName, pod.ServiceAccount)
	}
	if ans := e.certificateAccount(&c, podRef); ans.Verdict != Allow || e.a.version.Minor < 37 {
		return ans
	}
	return e.signer(&c, pod, podRef)
}

// certificateBody is what the plugin reads of a PodCertificateRequest.
type certificateBody struct {
	Spec struct {
		SignerName         string `json:"signerName"`
		PodName            string `json:"podName"`
		PodUID             string `json:"podUID"`
		ServiceAccountName string `json:"serviceAccountName"`
		ServiceAccountUID  string `json:"serviceAccountUID"`
		NodeName           string `json:"nodeName"`
		NodeUID            string `json:"nodeUID"`
	} `json:"spec"`
}

func (e *eval) certificateAccount(c *certificateBody, podRef string) Answer {
	name := c.Spec.ServiceAccountName
	if e.a.state.ServiceAccounts == nil {
		return unknown(MissingServiceAccount)
	}
	uid, s := e.a.state.ServiceAccounts.ServiceAccountUID(e.namespace, name, e.at)
	e.saw(&s)
	switch {
	case uid == nil && !s.Known:
		return unknown(MissingServiceAccount)
	case uid == nil:
		return fail(formCertNoAccount, e.namespace+"/"+name, notFoundMessage("serviceaccount", name))
	case *uid != c.Spec.ServiceAccountUID:
		return fail(formCertAccountUID, podRef, c.Spec.ServiceAccountUID, *uid)
	}
	return allowed()
}

// signer is validateNodePodCertificateSigner.
func (e *eval) signer(c *certificateBody, pod *Pod, podRef string) Answer {
	signer := c.Spec.SignerName
	if slices.ContainsFunc(pod.Uses, func(u Use) bool { return u.Kind == UseSigner && u.Name == signer }) {
		return allowed()
	}
	may, known, err := e.authorize("request-serviceaccounts-podcertificate-signer", strings.ReplaceAll(signer, "/", ":"), c.Spec.ServiceAccountName)
	switch {
	case may:
		return allowed()
	case !known:
		return unknown(MissingAuthorizer)
	case err != nil:
		return e.forbid(formCertSignerError, e.req.Attributes.GetUser().GetName(), signer, err)
	}
	return e.forbid(formCertSigner, podRef, signer)
}
