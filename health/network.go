package health

import "strings"

func service(_ *Judge, o, status fields) Result {
	spec := o.at("spec")
	kind := spec.str("type")
	if kind != "LoadBalancer" {
		if kind == "" {
			kind = "ClusterIP"
		}
		return healthy("Present", "present, of type %s", kind)
	}
	if c := status.condition("LoadBalancerPortsError"); c.isTrue() {
		return degraded(c.reasonOr("LoadBalancerPortsError"), "%s", c.text())
	}
	if addresses := loadBalancerAddresses(status); addresses != "" {
		return healthy("LoadBalancerReady", "load balancer at %s", addresses)
	}
	return progressing("LoadBalancerPending", "waiting for its load balancer's address")
}

func ingress(j *Judge, _, status fields) Result {
	if addresses := loadBalancerAddresses(status); addresses != "" {
		return healthy("LoadBalancerReady", "served at %s", addresses)
	}
	if j.opts.IngressNeedsAddress {
		return progressing("LoadBalancerPending", "waiting for its load balancer's address")
	}
	return healthy("Present", "present, without a load balancer address")
}

func loadBalancerAddresses(status fields) string {
	var addresses []string
	for _, v := range status.at("loadBalancer").list("ingress") {
		f := asFields(v)
		if a := f.str("hostname"); a != "" {
			addresses = append(addresses, a)
		} else if a := f.str("ip"); a != "" {
			addresses = append(addresses, a)
		}
	}
	return strings.Join(addresses, ", ")
}

func endpointSlice(_ *Judge, o, _ fields) Result {
	endpoints, ready := o.list("endpoints"), 0
	for _, v := range endpoints {
		if asFields(v).at("conditions")["ready"] != false { // absent means ready
			ready++
		}
	}
	if ready == 0 && len(endpoints) > 0 {
		return progressing("EndpointsNotReady", "0 of %d endpoints ready", len(endpoints))
	}
	return healthy("EndpointsReady", "%d of %d endpoints ready", ready, len(endpoints))
}

// webhookConfiguration waits for the CA bundle that an injector patches in: until then the API server cannot call a
// webhook that is a Service.
func webhookConfiguration(_ *Judge, o, _ fields) Result {
	webhooks := o.list("webhooks")
	var without []string
	for _, v := range webhooks {
		client := asFields(v).at("clientConfig")
		if client["service"] != nil && client.str("caBundle") == "" {
			without = append(without, asFields(v).str("name"))
		}
	}
	if len(without) > 0 {
		return progressing("CABundleMissing", "%d of %d webhooks have no CA bundle yet: %s", len(without), len(webhooks), strings.Join(without, ", "))
	}
	return healthy("Present", "present with %d webhooks", len(webhooks))
}
