package stepinto.runner;

/** A name that no test has. */
final class NoSuchTestException extends Exception {
    private static final long serialVersionUID = 1L;

    NoSuchTestException(String message) {
        super(message);
    }
}
