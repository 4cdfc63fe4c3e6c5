package stepinto.runner;

import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;

/** A template of {@link Canaries}. */
public class JupiterCanary {
    @Test
    public void mustFail() {
        Assertions.assertTrue(false);
    }
}
