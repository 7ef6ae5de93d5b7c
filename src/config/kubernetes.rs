//! The environment variables that Kubernetes sets in every pod for each Service of its namespace.
//!
//! Source: `pkg/kubelet/envvars/envvars.go`. The variables of a Service named `reprise` or
//! `reprise-…` have the same prefix as ours.

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Whether a variable has one of these shapes:
///
/// ```text
/// <SERVICE>_SERVICE_HOST          <SERVICE>_PORT_<n>_<PROTOCOL>
/// <SERVICE>_SERVICE_PORT          <SERVICE>_PORT_<n>_<PROTOCOL>_PROTO
/// <SERVICE>_SERVICE_PORT_<NAME>   <SERVICE>_PORT_<n>_<PROTOCOL>_PORT
/// <SERVICE>_PORT  (tcp://…)       <SERVICE>_PORT_<n>_<PROTOCOL>_ADDR
/// ```
pub(super) fn is_service_variable(name: &str, value: &str) -> bool {
    let words: Vec<&str> = name.split('_').collect();
    match words.as_slice() {
        [.., "SERVICE", "HOST" | "PORT"] => true,
        [.., "PORT", number, protocol]
        | [.., "PORT", number, protocol, "PROTO" | "PORT" | "ADDR"]
            if number.parse::<u16>().is_ok() && PROTOCOLS.contains(protocol) =>
        {
            true
        }
        [.., "PORT"] if value.contains("://") => true,
        _ => name.contains("_SERVICE_PORT_"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variables of one Service with two ports, as a kubelet makes them.
    fn variables(service: &str) -> Vec<(String, &'static str)> {
        [
            ("_SERVICE_HOST", "10.0.0.1"),
            ("_SERVICE_PORT", "9092"),
            ("_SERVICE_PORT_KAFKA", "9092"),
            ("_SERVICE_PORT_HTTP_ADMIN", "9664"),
            ("_PORT", "tcp://10.0.0.1:9092"),
            ("_PORT_9092_TCP", "tcp://10.0.0.1:9092"),
            ("_PORT_9092_TCP_PROTO", "tcp"),
            ("_PORT_9092_TCP_PORT", "9092"),
            ("_PORT_9092_TCP_ADDR", "10.0.0.1"),
            ("_PORT_53_UDP_PORT", "53"),
            ("_PORT_7_SCTP_ADDR", "fd00::1"),
        ]
        .map(|(ending, value)| (format!("{service}{ending}"), value))
        .to_vec()
    }

    #[test]
    fn all_shapes_of_kubernetes_service_variables_are_known() {
        for service in ["REPRISE", "REPRISE_ADMIN", "REPRISE_PORT", "REPRISE__EU"] {
            for (name, value) in variables(service) {
                assert!(is_service_variable(&name, value), "{name}");
            }
        }
    }

    #[test]
    fn settings_are_not_taken_for_service_variables() {
        for name in [
            "REPRISE_LISTEN",
            "REPRISE_RETRY__DELIVERY",
            "REPRISE_PORT",
            "REPRISE_PORT_9092",
            "REPRISE_PORT_9092_HTTP",
            "REPRISE_PORT_X_TCP",
            "REPRISE_PORT_9092_TCP_HOST",
            "REPRISE_SERVICE",
        ] {
            assert!(!is_service_variable(name, "9092"), "{name}");
        }
    }
}
