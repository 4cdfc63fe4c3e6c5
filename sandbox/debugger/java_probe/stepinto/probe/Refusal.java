package stepinto.probe;

/** A request that can't be carried out; it changed nothing. */
final class Refusal extends Exception {
    private static final long serialVersionUID = 1;

    /** As the answer's error has it: bad_request, evaluation, timeout, launch_failed ... */
    final String kind;

    Refusal(String message) {
        this("bad_request", message);
    }

    Refusal(String kind, String message) {
        super(message);
        this.kind = kind;
    }
}
