package stepinto.probe.wire;

/** A request that can't be carried out; it changed nothing. */
public final class Refusal extends Exception {
    private static final long serialVersionUID = 1;

    /** As the answer's error has it: bad_request, evaluation, timeout, launch_failed ... */
    public final String kind;

    public Refusal(String message) {
        this("bad_request", message);
    }

    public Refusal(String kind, String message) {
        super(message);
        this.kind = kind;
    }
}
